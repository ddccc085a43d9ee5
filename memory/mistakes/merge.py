"""Merge a mistake card into another that says the same, and undo a merge."""

from django.db import transaction
from django.utils import timezone

from memory.curation.decision_steps import get_current_revision, serve_again, set_status
from memory.errors import AlreadyDecided, CannotMerge
from memory.heuristics.models import Heuristic
from memory.mistakes.counts import lock_root, recount
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.review.decisions import check_rights, record_review
from memory.review.models import Review
from memory.rows import find_row

_Status = Heuristic.Status
IN_USE = (_Status.PROPOSED, _Status.APPROVED)
AUTOMATIC = Actor.policy("mistake-similarity")


@transaction.atomic
def merge_cards(
    card: MistakeCard,
    *,
    into: MistakeCard,
    by: Actor,
    similarity: float | None = None,
    reason: str = "",
) -> MistakeCard:
    """Count one card's runs with another's from now on. Agents are given only the other's words.

    Raises:
        CannotMerge: the two are the same, or of different projects.
        AlreadyDecided: one of them was merged before, or is not in use.
        NotAllowed, ProjectArchived: see `check_rights`. An automatic merge decides on no words and needs no rights.
    """
    if card.pk == into.pk or card.project_id != into.project_id:
        raise CannotMerge("Choose another card of the same project to merge this one into.")
    if by != AUTOMATIC:
        check_rights(card, by=by)
    card, into = _lock_pair(card, into)
    for side in (card, into):
        if side.superseded_by_id is not None:
            raise AlreadyDecided(f"The card {side} has already been merged into another.")
        if side.status not in IN_USE:
            raise AlreadyDecided(
                f"The card {side} is {side.status}: only cards that are proposed or approved are merged."
            )
    served = find_row(card.revisions.filter(served=True))
    card.revisions.filter(served=True).update(served=False)
    card.details["merge"] = {
        "by": by.label,
        "at": timezone.now().isoformat(),
        "similarity": similarity,
        "status": card.status,
        "served": str(served.pk) if served is not None else None,
    }
    card.superseded_by = into
    set_status(card, _Status.SUPERSEDED, "superseded_by", "details")
    recount(into)
    revision = get_current_revision(card, content_sha256=None)
    record_review(card, revision, Review.Decision.MERGE, by=by, reason=reason)
    return card


@transaction.atomic
def undo_merge(card: MistakeCard, *, by: Actor, reason: str = "") -> MistakeCard:
    """Undo a merge: each card counts its own runs, and what was served before is served again.

    The two are never merged automatically again.

    Raises:
        AlreadyDecided: it is not merged into another card.
        CoveredByOrder, OrderUnderWay: a quarantine order covers what was served before.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    check_rights(card, by=by)
    into = MistakeCard.objects.filter(pk=card.superseded_by_id).first()
    if into is None:
        raise AlreadyDecided("This merge has already been undone.")
    card, into = _lock_pair(card, into)
    merge = card.merge
    # Checked again under the lock: another undo may have been first.
    if card.superseded_by_id != into.pk or merge is None:
        raise AlreadyDecided("This merge has already been undone.")
    undone = {"into": str(into.pk), "by": merge["by"], "undone_by": by.label, "at": timezone.now().isoformat()}
    card.details["undone_merges"] = [*card.undone_merges, undone]
    stand_alone(card, status=merge["status"])
    if merge["served"] is not None:
        serve_again(card.revisions.get(pk=merge["served"]))
    recount(card)
    recount(lock_root(into))
    revision = get_current_revision(card, content_sha256=None)
    merged = card.reviews.filter(decision=Review.Decision.MERGE).values_list("pk", flat=True).first()
    record_review(card, revision, Review.Decision.UNDO, by=by, reason=reason or "Undid: merge.", undoes=merged)
    return card


def stand_alone(card: MistakeCard, *, status: str) -> None:
    """Let a locked card, merged into another until now, stand by itself again."""
    card.details.pop("merge", None)
    card.superseded_by = None
    set_status(card, status, "superseded_by", "details")


def _lock_pair(card: MistakeCard, into: MistakeCard) -> tuple[MistakeCard, MistakeCard]:
    """Lock two cards in the order of their ids, so that two merges of one pair cannot deadlock."""
    rows = MistakeCard.objects.select_for_update().filter(pk__in=[card.pk, into.pk]).order_by("pk")
    locked = {row.pk: row for row in rows}
    return locked[card.pk], locked[into.pk]
