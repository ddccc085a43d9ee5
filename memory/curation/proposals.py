"""Bring lessons into the review queue: new ones, new wordings, more evidence."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from memory.curation.deciders import check_decider
from memory.curation.proposal_limit import take_room
from memory.errors import ChangedMeanwhile, NothingChanged
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.heuristics.text import Citation, LessonText
from memory.index.heuristic_vectors import embed_when_committed
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.runs.models import Trajectory


@transaction.atomic
def propose_heuristic(
    project: Project,
    *,
    text: LessonText,
    by: Actor,
    reflector: str = "",
    reflector_version: str = "",
    model: str = "",
    prompt_version: str = "",
    confidence: float | None = None,
    client: str = "",
) -> Heuristic:
    """Put a lesson before the reviewers. It is served to nobody until one of them approves it.

    Raises:
        TooManyProposals: an API client asks, and as many of its lessons wait as may (reliability D5).
    """
    _take_room(project.pk, by)
    heuristic = Heuristic.objects.create(
        project=project,
        reflector=reflector,
        reflector_version=reflector_version,
        model=model,
        prompt_version=prompt_version,
        confidence=confidence,
        client=client,
    )
    _add_revision(heuristic, number=1, text=text, by=by)
    return heuristic


@transaction.atomic
def revise_heuristic(
    heuristic: Heuristic, *, text: LessonText, by: Actor, content_sha256: str | None = None
) -> Heuristic:
    """Propose another wording. What is served now stays served until the new wording is decided.

    Args:
        content_sha256: the hash of the wording the author saw; None takes the newest.

    Raises:
        ChangedMeanwhile: the wording changed since the author saw it.
        NothingChanged: the new wording is the old one.
        TooManyProposals: an API client brings a decided lesson back, and as many of its lessons wait as may.
    """
    heuristic = lock_heuristic(heuristic)
    current = get_current_revision(heuristic, content_sha256=content_sha256)
    if _clean(text) == current.as_text():
        raise NothingChanged("The text is the same as before, so there is nothing to review.")
    if heuristic.status != Heuristic.Status.PROPOSED:
        _take_room(heuristic.project_id, by)
    return repropose_heuristic(heuristic, text=text, by=by)


@transaction.atomic
def repropose_heuristic(heuristic: Heuristic, *, text: LessonText, by: Actor) -> Heuristic:
    """Put a wording it had before back into the queue, as a revision of its own: approvals are never reused."""
    heuristic = lock_heuristic(heuristic)
    number = heuristic.revisions.order_by("-number").values_list("number", flat=True)[0] + 1
    _add_revision(heuristic, number=number, text=text, by=by)
    return heuristic


@transaction.atomic
def restore_revision(heuristic: Heuristic, *, revision: HeuristicRevision, by: Actor) -> Heuristic:
    """Propose again what a heuristic said before. What is served now stays served until that is decided.

    Raises:
        NothingChanged: the heuristic is in use and says just that.
        NotAllowed, ProjectArchived, ClaimedByOther: as for a decision.
    """
    heuristic = lock_heuristic(heuristic)
    check_decider(heuristic, by=by)
    if heuristic.status in (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED):
        return revise_heuristic(heuristic, text=revision.as_text(), by=by)
    return repropose_heuristic(heuristic, text=revision.as_text(), by=by)


@transaction.atomic
def add_evidence(heuristic: Heuristic, trajectory: Trajectory, *, citations: Iterable[Citation]) -> Heuristic:
    """Link a heuristic to the run it is seen in. Support becomes the number of distinct runs."""
    heuristic = lock_heuristic(heuristic)
    Evidence.objects.bulk_create(
        [
            Evidence(
                project_id=heuristic.project_id,
                heuristic=heuristic,
                trajectory=trajectory,
                first_step=citation.first_step,
                last_step=citation.last_step,
                quote=redact(citation.quote).value,
            )
            for citation in citations
        ],
        ignore_conflicts=True,
    )
    embed_when_committed(heuristic.pk)  # the run's task is searched too
    return count_support(heuristic)


def count_support(heuristic: Heuristic) -> Heuristic:
    """Recount the distinct runs a heuristic is drawn from."""
    counted = heuristic.evidence.aggregate(runs=Count("trajectory", distinct=True))
    heuristic.support = counted["runs"]
    heuristic.save(update_fields=["support"])
    return heuristic


def lock_heuristic(heuristic: Heuristic) -> Heuristic:
    """Read the row again and hold it until the transaction ends."""
    return Heuristic.objects.select_for_update().get(pk=heuristic.pk)


def get_current_revision(heuristic: Heuristic, *, content_sha256: str | None) -> HeuristicRevision:
    """Return the newest wording, if it is the one that was seen.

    Raises:
        ChangedMeanwhile: it is not.
    """
    current = heuristic.current_revision
    assert current is not None  # every heuristic is made with one
    if content_sha256 is not None and content_sha256 != current.content_sha256:
        raise ChangedMeanwhile(
            "The text changed after you read it. Read the present text and decide again; its content_sha256 is "
            f"{current.content_sha256}."
        )
    return current


def _take_room(project_id: UUID, by: Actor) -> None:
    if by.api_key_id is not None:
        take_room(project_id, by.label.removeprefix("key:"))


def _clean(text: LessonText) -> LessonText:
    values: dict[str, Any] = redact(asdict(text) | {"tags": list(text.tags)}).value
    return LessonText(**values | {"tags": tuple(values["tags"])})


def _add_revision(heuristic: Heuristic, *, number: int, text: LessonText, by: Actor) -> None:
    values = asdict(_clean(text))
    values["tags"] = list(values["tags"])
    revision = HeuristicRevision.objects.create(
        project_id=heuristic.project_id,
        heuristic=heuristic,
        number=number,
        created_by=by.label,
        **values,
    )
    revision.refresh_from_db(fields=["content_sha256"])  # a trigger computes it
    heuristic.current_revision = revision
    heuristic.status = Heuristic.Status.PROPOSED
    heuristic.superseded_by = None
    heuristic.prioritised_at = None  # its place in the queue is worked out anew
    heuristic.updated_at = timezone.now()
    heuristic.save(update_fields=["current_revision", "status", "superseded_by", "prioritised_at", "updated_at"])
    embed_when_committed(heuristic.pk)
