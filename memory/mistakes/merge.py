"""Merge a mistake card into another that says the same, and undo a merge."""

from django.db import transaction
from django.utils import timezone

from memory.curation.decision_steps import get_current_revision, record_review, serve_again
from memory.curation.reviewers import check_rights
from memory.errors import AlreadyDecided, CannotMerge
from memory.mistakes.counts import recount
from memory.mistakes.models import MistakeCard, MistakeCardReview, MistakeMerge
from memory.projects.actors import Actor

IN_USE = (MistakeCard.Status.PROPOSED, MistakeCard.Status.APPROVED)
AUTOMATIC = Actor.policy("mistake-similarity")
_Decision = MistakeCardReview.Decision


@transaction.atomic
def merge_cards(
    card: MistakeCard,
    *,
    into: MistakeCard,
    by: Actor,
    similarity: float | None = None,
    reason: str = "",
) -> MistakeMerge:
    """Count one card's runs with another's from now on. Agents are given only the other's words.

    Raises:
        CannotMerge: the two are the same, or of different projects.
        AlreadyDecided: one of them was merged before, or the other is not in use.
        NotAllowed, ProjectArchived: see `check_rights`. An automatic merge decides on no words and needs no rights.
    """
    if card.pk == into.pk or card.project_id != into.project_id:
        raise CannotMerge("Choose another card of the same project to merge this one into.")
    if by != AUTOMATIC:
        check_rights(card, by=by)
    card, into = _lock_pair(card, into)
    for each in (card, into):
        if each.merged_into_id is not None:
            raise AlreadyDecided(f"The card {each} has already been merged into another.")
    if into.status not in IN_USE:
        raise AlreadyDecided(f"The card {into} is {into.status}: merge into one that is proposed or approved.")
    served = card.revisions.filter(served=True).first()
    card.revisions.filter(served=True).update(served=False)
    merge = MistakeMerge.objects.create(
        project_id=card.project_id,
        card=card,
        into=into,
        similarity=similarity,
        served_before=served,
        merged_by=by.label,
    )
    _set_merged_into(card, into)
    recount(into)
    revision = get_current_revision(card, content_sha256=None)
    record_review(revision, _Decision.MERGE, item=card, by=by, seen_count=card.seen_count, reason=reason)
    return merge


@transaction.atomic
def undo_merge(merge: MistakeMerge, *, by: Actor, reason: str = "") -> MistakeCard:
    """Undo a merge: each card counts its own runs, and what was served before is served again.

    The two are never merged automatically again.

    Raises:
        AlreadyDecided: it was undone before.
        CoveredByOrder, OrderUnderWay: a quarantine order covers what was served before.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    check_rights(merge.card, by=by)
    card, into = _lock_pair(merge.card, merge.into)
    undone = MistakeMerge.objects.filter(pk=merge.pk, undone_at__isnull=True).update(
        undone_at=timezone.now(), undone_by=by.label
    )
    if not undone:
        raise AlreadyDecided("This merge has already been undone.")
    _set_merged_into(card, None)
    if merge.served_before is not None:
        serve_again(merge.served_before)
    recount(card)
    recount(into)
    revision = get_current_revision(card, content_sha256=None)
    record_review(revision, _Decision.UNMERGE, item=card, by=by, seen_count=card.seen_count, reason=reason)
    return card


def _lock_pair(card: MistakeCard, into: MistakeCard) -> tuple[MistakeCard, MistakeCard]:
    """Lock two cards in the order of their ids, so that two merges of one pair cannot deadlock."""
    rows = MistakeCard.objects.select_for_update().filter(pk__in=[card.pk, into.pk]).order_by("pk")
    locked = {row.pk: row for row in rows}
    return locked[card.pk], locked[into.pk]


def _set_merged_into(card: MistakeCard, into: MistakeCard | None) -> None:
    card.merged_into = into
    card.updated_at = timezone.now()
    card.save(update_fields=["merged_into", "updated_at"])
