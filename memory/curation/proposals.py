"""Bring lessons into the review queue: new ones and new wordings."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from memory.after_commit import after_commit
from memory.curation.decision_steps import get_current_revision
from memory.curation.proposal_groups import leave_group, lock_groups
from memory.curation.reviewers import check_decider
from memory.errors import NothingChanged, TooManyProposals
from memory.events import EventKind, ProjectEvent, announce
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.provenance import OWN_WORDS, Sources, record_origins
from memory.heuristics.text import Authorship, HeuristicText
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.review.decisions import add_revision, lock_subject


@transaction.atomic
def propose_heuristic(
    project: Project, *, text: HeuristicText, by: Actor, origin: Authorship | None = None, runs: Iterable[UUID] = ()
) -> Heuristic:
    """Propose a lesson for review. It is not served until a reviewer approves it.

    Args:
        runs: those that its words were written from.

    Raises:
        TooManyProposals: an API client asks, and as many of its lessons wait as may (reliability D5).
    """
    _take_room(project.pk, by)
    origin = origin or Authorship()
    heuristic = Heuristic.objects.create(project=project, **asdict(origin))
    _add_revision(heuristic, text=text, by=by, sources=Sources(runs=tuple(runs), client=origin.client))
    _announce(heuristic)
    return heuristic


@transaction.atomic
def revise_heuristic(
    heuristic: Heuristic,
    *,
    text: HeuristicText,
    by: Actor,
    content_sha256: str | None = None,
    sources: Sources = OWN_WORDS,
    waits: bool = True,
) -> Heuristic:
    """Propose another wording. What is served now stays served until the new wording is decided.

    Args:
        content_sha256: the hash of the wording the author saw; None takes the newest.
        sources: what the words were taken from, besides the wording before.
        waits: for a decision; False where the caller decides at once, so that no notice of it is sent.

    Raises:
        ChangedMeanwhile: the wording changed since the author saw it.
        NothingChanged: the new wording is the old one.
        TooManyProposals: an API client brings a decided lesson back, and as many of its lessons wait as may.
    """
    heuristic = lock_subject(heuristic)
    current = get_current_revision(heuristic, content_sha256=content_sha256)
    if redact_text(text) == current.as_text():
        raise NothingChanged("The text is the same as before, so there is nothing to review.")
    # One that waits already takes no more room in the queue.
    if heuristic.status != Heuristic.Status.PROPOSED:
        _take_room(heuristic.project_id, by)
    return repropose_heuristic(heuristic, text=text, by=by, sources=sources, waits=waits)


@transaction.atomic
def repropose_heuristic(
    heuristic: Heuristic, *, text: HeuristicText, by: Actor, sources: Sources = OWN_WORDS, waits: bool = True
) -> Heuristic:
    """Put a wording it had before back into the queue, as a revision of its own: approvals are never reused.

    Args:
        waits: as for `revise_heuristic`.
    """
    heuristic = lock_groups(heuristic)[heuristic.pk]
    # Before the revision is added: the comparison is with what the group was formed on.
    if waits and heuristic.current_revision and not _is_same_advice(heuristic.current_revision.as_text(), text):
        leave_group(heuristic)
    _add_revision(heuristic, text=text, by=by, sources=sources)
    if waits:
        _announce(heuristic)
    return heuristic


@transaction.atomic
def restore_revision(heuristic: Heuristic, *, revision: HeuristicRevision, by: Actor) -> Heuristic:
    """Propose again what a heuristic said before. What is served now stays served until that is decided.

    Raises:
        NothingChanged: the heuristic is in use and says just that.
        NotAllowed, ProjectArchived, ClaimedByOther: as for a decision.
    """
    heuristic = lock_subject(heuristic)
    check_decider(heuristic, by=by)
    if heuristic.status in (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED):
        return revise_heuristic(heuristic, text=revision.as_text(), by=by)
    return repropose_heuristic(heuristic, text=revision.as_text(), by=by)


def embed_unless_client(heuristic: Heuristic, *, by: Actor) -> None:
    """Make the vectors of a lesson after the commit. An API client does not wait for them.

    What a client proposes is not served yet: the periodic work makes its vectors within seconds, and an approval that
    comes before makes them at once.
    """
    if by.api_key_id is None:
        after_commit(embed_heuristics, [heuristic.pk])


def has_room(project_id: UUID, client: str) -> bool:
    """Tell whether a client may bring another lesson before the reviewers. What no client brought always has room."""
    limit = settings.ERL_PENDING_PROPOSALS_PER_CLIENT
    if not limit or not client:
        return True
    of_client = Q(client=client) | Q(current_revision__created_by=f"key:{client}")
    waiting = Heuristic.objects.proposed().filter(of_client, project_id=project_id).order_by("pk")
    # One row at the limit tells enough; a count would read all that wait.
    return not waiting.values_list("pk")[limit - 1 : limit]


def _take_room(project_id: UUID, by: Actor) -> None:
    """Let an API client propose once more, one at a time until the transaction ends, while there is room.

    Raises:
        TooManyProposals: the client has as many lessons waiting as it may have.
    """
    if by.api_key_id is None:
        return
    client = by.label.removeprefix("key:")
    lock_proposals_of(project_id, client)
    if not has_room(project_id, client):
        raise TooManyProposals(
            f"{settings.ERL_PENDING_PROPOSALS_PER_CLIENT} lessons of this client are already waiting for a reviewer, "
            "so nothing was stored. Send it again when some of them are decided."
        )


def _announce(heuristic: Heuristic) -> None:
    announce(ProjectEvent(kind=EventKind.PROPOSAL_WAITING, project_id=heuristic.project_id, lesson_ids=(heuristic.pk,)))


def lock_proposals_of(project_id: UUID, client: str) -> None:
    """Let one transaction at a time propose for a client, until it ends."""
    # There is no row of a client to lock, so a number made from its name stands for it.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"memory.proposals:{project_id}:{client}"]
        )


def _is_same_advice(one: HeuristicText, other: HeuristicText) -> bool:
    """Tell whether two texts differ only in what is no advice: a wording with other advice leaves its group."""
    aside: dict[str, Any] = {"rationale": "", "tags": (), "source_task": ""}
    return replace(one, **aside) == replace(redact_text(other), **aside)


def redact_text(text: HeuristicText) -> HeuristicText:
    values: dict[str, Any] = redact(asdict(text) | {"tags": list(text.tags)}).value
    return HeuristicText(**values | {"tags": tuple(values["tags"])})


def _add_revision(heuristic: Heuristic, *, text: HeuristicText, by: Actor, sources: Sources) -> None:
    values = asdict(redact_text(text))
    values["tags"] = list(values["tags"])
    revision = add_revision(heuristic, by=by, lineage=list(sources.wordings), **values)
    revision.refresh_from_db(fields=["content_sha256", "lineage", "created_at"])  # triggers compute them
    record_origins(revision, sources)
    heuristic.current_revision = revision
    heuristic.status = Heuristic.Status.PROPOSED
    heuristic.superseded_by = None
    heuristic.prioritised_at = None  # its priority is worked out again
    heuristic.updated_at = timezone.now()
    heuristic.save(update_fields=["current_revision", "status", "superseded_by", "prioritised_at", "updated_at"])
    embed_unless_client(heuristic, by=by)
