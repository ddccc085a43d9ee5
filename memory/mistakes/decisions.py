"""Decisions on mistake cards. Each is one function and leaves a MistakeCardReview.

Every function raises NotAllowed or ProjectArchived where the actor may not decide, see `check_rights`.
"""

from django.db import transaction

from memory.curation.decision_steps import (
    get_current_revision,
    lock_item,
    record_review,
    refuse_revision,
    serve_revision,
    set_status,
    withdraw_revision,
)
from memory.curation.reviewers import check_rights, find_owners
from memory.errors import AlreadyDecided, NotServable
from memory.mistakes.models import MistakeCard, MistakeCardReview
from memory.projects.actors import Actor

_Status = MistakeCard.Status
_Decision = MistakeCardReview.Decision


@transaction.atomic
def approve_card(card: MistakeCard, *, by: Actor, content_sha256: str, reason: str = "") -> MistakeCard:
    """Give agents the newest words from now on, in place of any earlier ones.

    One person is enough in a project that requires two reviewers, but it has to be a person.

    Args:
        content_sha256: the hash of the words that were read, or that a policy judged.

    Raises:
        AlreadyDecided: it is not waiting for a decision, or was merged into another card.
        ChangedMeanwhile: the words are not those that were read.
    """
    card = _lock_proposed(card)
    project = check_rights(card, by=by)
    if project.four_eyes:
        find_owners(by)
    revision = get_current_revision(card, content_sha256=content_sha256)
    serve_revision(card, revision, by=by)
    card.ranked_count = card.seen_count
    set_status(card, _Status.APPROVED, "ranked_count")
    record_review(revision, _Decision.APPROVE, item=card, by=by, seen_count=card.seen_count, reason=reason)
    return card


@transaction.atomic
def reject_card(card: MistakeCard, *, by: Actor, content_sha256: str | None = None, reason: str = "") -> MistakeCard:
    """Refuse the newest words. Words approved earlier stay served and become the current ones again.

    Raises:
        AlreadyDecided, ChangedMeanwhile: as for approval.
    """
    card = _lock_proposed(card)
    check_rights(card, by=by)
    revision = get_current_revision(card, content_sha256=content_sha256)
    set_status(card, refuse_revision(card))
    record_review(revision, _Decision.REJECT, item=card, by=by, seen_count=card.seen_count, reason=reason)
    return card


@transaction.atomic
def retire_card(card: MistakeCard, *, by: Actor, reason: str = "") -> MistakeCard:
    """Stop giving a card to agents. Its runs are still counted.

    Raises:
        NotServable: agents are not given it.
    """
    card = lock_item(card)
    check_rights(card, by=by, withdraws=True)
    revision = withdraw_revision(card)
    set_status(card, _Status.RETIRED)
    record_review(revision, _Decision.RETIRE, item=card, by=by, seen_count=card.seen_count, reason=reason)
    return card


@transaction.atomic
def confirm_count(card: MistakeCard, *, by: Actor, reason: str = "") -> MistakeCard:
    """Let the present count decide the card's place in the prompt.

    Counts come from agents, so they change no order by themselves (reliability D4).

    Raises:
        NotServable: agents are not given it.
    """
    card = lock_item(card)
    check_rights(card, by=by)
    served = card.revisions.filter(served=True).first()
    if served is None:
        raise NotServable(f"This mistake card is {card.status} and is not being served, so it has no place to change.")
    card.ranked_count = card.seen_count
    card.save(update_fields=["ranked_count"])
    record_review(served, _Decision.CONFIRM_COUNT, item=card, by=by, seen_count=card.seen_count, reason=reason)
    return card


def _lock_proposed(card: MistakeCard) -> MistakeCard:
    card = lock_item(card)
    if card.merged_into_id is not None:
        raise AlreadyDecided("This card was merged into another. Decide on that one, or undo the merge.")
    if card.status != _Status.PROPOSED:
        raise AlreadyDecided(f"This card is {card.status}, not proposed: it was decided before.")
    return card
