"""Count how many recorded failures a lesson would have met, and how many successes did what it says to avoid.

The offline reflector looks for the same patterns in every run. A failure is one the lesson would have met if it shows
the lesson's pattern, or if the lesson cites it. A success contradicts a lesson about what to avoid if it shows the
pattern too. What a language model proposed has no pattern, so nothing is known of it.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db import connection

from memory.heuristics.extensions import Tally
from memory.heuristics.models import Heuristic
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE
from memory.runs.models import Trajectory
from reflection.reflectors.matching import OTHER_WORDS
from reflection.reflectors.models import Proposal, RunPatterns

# The patterns of a lesson are those of its group; its place is its task family or the project.
_TALLY = """
WITH lesson AS (
    SELECT h.id, h.project_id, r.polarity = 'avoid' AS avoids,
        CASE WHEN r.scope = 'project' THEN NULL ELSE r.task_id END AS family, array_agg(DISTINCT p.pattern) AS keys
    FROM memory_heuristic h
    JOIN memory_heuristicrevision r ON r.id = h.current_revision_id
    JOIN memory_heuristic m ON m.id = h.id OR m.leader_id = h.id OR m.superseded_by_id = h.id
    JOIN reflection_proposal p ON p.heuristic_id = m.id AND p.pattern <> ''
    WHERE h.id = ANY(%(ids)s)
    GROUP BY h.id, r.id
), place AS (
    SELECT l.project_id, l.family,
        count(*) FILTER (WHERE t.ended = 'failure') AS failures,
        count(*) FILTER (WHERE t.ended = 'success') AS successes
    FROM (SELECT DISTINCT project_id, family FROM lesson) l
    JOIN reflection_runpatterns t ON t.project_id = l.project_id AND (l.family IS NULL OR t.task_id = l.family)
    GROUP BY l.project_id, l.family
), shown AS (
    SELECT l.id, t.trajectory_id, t.ended, true AS matches
    FROM lesson l
    JOIN reflection_runpatterns t ON t.keys && l.keys AND t.project_id = l.project_id
        AND (l.family IS NULL OR t.task_id = l.family)
    UNION
    SELECT l.id, t.trajectory_id, t.ended, t.keys && l.keys
    FROM lesson l
    JOIN memory_heuristic m ON m.id = l.id OR m.leader_id = l.id
    JOIN memory_evidence e ON e.heuristic_id = m.id
    JOIN reflection_runpatterns t ON t.trajectory_id = e.trajectory_id
        AND (l.family IS NULL OR t.task_id = l.family)
)
SELECT l.id,
    (SELECT count(DISTINCT trajectory_id) FROM shown s WHERE s.id = l.id AND s.ended = 'failure'), p.failures,
    CASE WHEN l.avoids THEN
        (SELECT count(DISTINCT trajectory_id) FROM shown s WHERE s.id = l.id AND s.ended = 'success' AND s.matches) END,
    p.successes, coalesce(l.family, '')
FROM lesson l JOIN place p ON p.project_id = l.project_id AND p.family IS NOT DISTINCT FROM l.family
"""


def record_patterns(trajectory: Trajectory, patterns: Iterable[str], *, version: str) -> None:
    """Write which patterns a run shows, in place of those of an earlier reflection, and order its lessons again."""
    keys = sorted(set(patterns))
    RunPatterns.objects.update_or_create(
        trajectory=trajectory,
        defaults={
            "project_id": trajectory.project_id,
            "task_id": trajectory.task_id,
            "ended": _ended(trajectory),
            "keys": keys,
            "reflector_version": version,
        },
    )
    if keys:
        concerned = Heuristic.objects.proposed().filter(
            project=trajectory.project_id, proposals__pattern__in=keys, prioritised_at__isnull=False
        )
        # Locked rows are skipped, so that a reflection does not wait for a decision on them.
        free = concerned.order_by("pk").select_for_update(of=("self",), skip_locked=True)
        ids = list(free.values_list("pk", flat=True))
        Heuristic.objects.filter(pk__in=ids).update(prioritised_at=None)


def find_tallies(heuristic_ids: Iterable[UUID]) -> dict[UUID, Tally]:
    """Return what is known of these lessons. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_TALLY, {"ids": list(heuristic_ids)})
        rows = cursor.fetchall()
    names = ("failures_met", "failures", "successes_contradicted", "successes", "family")
    return {row[0]: Tally(**dict(zip(names, row[1:], strict=True))) for row in rows}


def find_flags(heuristic_ids: Iterable[UUID]) -> dict[UUID, set[str]]:
    """Return the codes of the checks' findings in these heuristics. One query."""
    flagged = Proposal.objects.filter(heuristic__in=list(heuristic_ids)).exclude(findings=[])
    flags: dict[UUID, set[str]] = {}
    for heuristic_id, findings in flagged.values_list("heuristic_id", "findings"):
        codes = {finding["code"] for finding in findings} - {OTHER_WORDS}
        flags.setdefault(heuristic_id, set()).update(codes)
    return flags


def _ended(trajectory: Trajectory) -> str:
    if trajectory.outcome in ("success", "failure"):
        return trajectory.outcome
    score = trajectory.score
    if score is not None and score >= SUCCESS_SCORE:
        return "success"
    return "failure" if score is not None and score < FAILURE_SCORE else "unknown"
