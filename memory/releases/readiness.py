"""Which releases are kept ready: their wordings are live and searchable, so that a flip only moves a pointer."""

from uuid import UUID

from django.db import connection

from memory.after_commit import after_commit
from memory.index.heuristic_vectors import count_terms, embed_heuristics
from memory.projects.models import Project
from memory.releases.models import Deployment, Release, ReleaseMember

KEPT_READY = 10  # newest releases, besides those deployed

_ADD = """
INSERT INTO memory_releasemember (project_id, release_id, revision_id)
SELECT e.project_id, e.id, r.id
FROM memory_release e
CROSS JOIN LATERAL jsonb_to_recordset(e.manifest -> 'lessons') AS l (revision uuid, content_sha256 text)
JOIN memory_heuristicrevision r ON r.id = l.revision AND r.content_sha256 = l.content_sha256
WHERE e.id = %(release)s
ON CONFLICT DO NOTHING
"""
# The trigger decides what is live; rows that it need not decide on again are left alone.
_BRING_IN = """
UPDATE memory_heuristicrevision SET live = true
WHERE NOT live AND withdrawn_at IS NULL
    AND id IN (SELECT revision_id FROM memory_releasemember WHERE release_id = %(release)s)
RETURNING heuristic_id
"""
_TAKE_OUT = """
WITH gone AS (DELETE FROM memory_releasemember WHERE project_id = %(project)s AND NOT release_id = ANY(%(kept)s)
              RETURNING revision_id)
SELECT array_agg(DISTINCT revision_id) FROM gone
"""
_DECIDE_AGAIN = "UPDATE memory_heuristicrevision SET live = live WHERE live AND id = ANY(%(revisions)s)"
_LOCK_LIVE = """
SELECT id FROM memory_heuristicrevision WHERE project_id = %(project)s AND (live OR served) ORDER BY id
FOR NO KEY UPDATE
"""
_DECIDE_ALL = """
UPDATE memory_heuristicrevision SET live = live WHERE project_id = %(project)s AND (live OR served)
"""


def keep_ready(release: Release) -> None:
    """Make the wordings of a release live and searchable. What was quarantined or erased since stays out."""
    with connection.cursor() as cursor:
        cursor.execute(_ADD, {"release": release.pk})
        cursor.execute(_BRING_IN, {"release": release.pk})
        brought: list[UUID] = [row[0] for row in cursor.fetchall()]
    if brought:
        # Wordings of an old release may have been embedded by an earlier model.
        after_commit(embed_heuristics, brought)
        after_commit(count_terms, release.project_id)


def let_go_of_old(deployment: Deployment) -> None:
    """Take out what belongs to no release that is deployed or among the newest."""
    newest = Release.objects.filter(project=deployment.project_id).order_by("-number").values_list("pk", flat=True)
    deployed = (deployment.stable_id, deployment.candidate_id, deployment.previous_id)
    # What is deployed stays ready, however old it is.
    kept = [*newest[:KEPT_READY], *(pk for pk in deployed if pk is not None)]
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_OUT, {"project": deployment.project_id, "kept": kept})
        (revisions,) = cursor.fetchone()
        # Only these may have left service, and the trigger runs for every row that is written.
        if revisions:
            cursor.execute(_DECIDE_AGAIN, {"revisions": revisions})
            after_commit(count_terms, deployment.project_id)


def lock_what_is_live(project: Project) -> None:
    """Let no wording come into or out of service until the transaction ends: how a project serves is changing."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 0")  # it waits for the decisions under way
        cursor.execute("SELECT pg_advisory_xact_lock(memory_quarantine_lock(%s))", [project.pk])
        cursor.execute(_LOCK_LIVE, {"project": project.pk})


def serve_all_approved(project: Project) -> None:
    """Let go of every release: what is approved is live at once. Needs the lock."""
    ReleaseMember.objects.filter(project=project).delete()
    decide_again(project)


def decide_again(project: Project) -> None:
    """Let the database decide again which wordings of a project are live. Needs the lock."""
    with connection.cursor() as cursor:
        cursor.execute(_DECIDE_ALL, {"project": project.pk})
    after_commit(count_terms, project.pk)
