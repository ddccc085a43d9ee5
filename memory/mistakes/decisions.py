"""The reviewers' decisions on mistake cards. Each is one function and leaves a MistakeCardReview."""

from django.db import transaction
from django.utils import timezone

from memory.curation.deciders import check_card_decider, find_owners
from memory.errors import AlreadyDecided, ChangedMeanwhile, NotServable
from memory.mistakes.models import MistakeCard, MistakeCardReview, MistakeCardRevision
from memory.projects.actors import Actor

_Status = MistakeCard.Status
_Decision = MistakeCardReview.Decision


@transaction.atomic
def approve_card(
    card: MistakeCard, *, by: Actor, content_sha256: str | None = None, reason: str = "", request_id: str = ""
) -> MistakeCard:
    """Give agents the newest words from now on, in place of any earlier ones.

    Args:
        content_sha256: the hash of the words the reviewer read; None stands for "whatever is newest".

    Raises:
        AlreadyDecided: it is not waiting for a decision, or was merged into another card.
        ChangedMeanwhile: the words are not those that were read.
        NotAllowed, ProjectArchived: see `check_card_decider`; where the project asks for two reviewers, nobody's eyes
            approve no card (`find_owners`). A card takes one person there too.
    """
    card = _lock_proposed(card)
    project = check_card_decider(card, by=by)
    if project.four_eyes:
        find_owners(by)
    revision = _get_current(card, content_sha256)
    card.revisions.filter(served=True).exclude(pk=revision.pk).update(served=False)
    MistakeCardRevision.objects.filter(pk=revision.pk).update(
        approved_sha256=revision.content_sha256, approved_by=by.label, approved_at=timezone.now(), served=True
    )
    card.ranked_count = card.seen_count
    _set_status(card, _Status.APPROVED)
    record_card_review(card, revision, _Decision.APPROVE, by, reason, request_id)
    return card


@transaction.atomic
def reject_card(
    card: MistakeCard, *, by: Actor, content_sha256: str | None = None, reason: str = "", request_id: str = ""
) -> MistakeCard:
    """Refuse the newest words. Words approved earlier stay served and become the current ones again.

    Raises:
        AlreadyDecided, ChangedMeanwhile, NotAllowed, ProjectArchived: as for approval.
    """
    card = _lock_proposed(card)
    check_card_decider(card, by=by)
    revision = _get_current(card, content_sha256)
    served = card.revisions.filter(served=True).first()
    if served is not None:
        card.current_revision = served
    _set_status(card, _Status.APPROVED if served else _Status.REJECTED)
    record_card_review(card, revision, _Decision.REJECT, by, reason, request_id)
    return card


@transaction.atomic
def retire_card(card: MistakeCard, *, by: Actor, reason: str = "", request_id: str = "") -> MistakeCard:
    """Stop giving a card to agents. It goes on being counted.

    Raises:
        NotServable: agents are not given it.
        NotAllowed: see `check_card_decider`.
    """
    card = lock_card(card)
    check_card_decider(card, by=by, withdraws=True)
    served = card.revisions.filter(served=True).first()
    if served is None:
        raise NotServable(f"This card is {card.status} and agents are not given it, so nothing was changed.")
    MistakeCardRevision.objects.filter(pk=served.pk).update(served=False)
    card.current_revision = served
    _set_status(card, _Status.RETIRED)
    record_card_review(card, served, _Decision.RETIRE, by, reason, request_id)
    return card


@transaction.atomic
def confirm_count(card: MistakeCard, *, by: Actor, reason: str = "", request_id: str = "") -> MistakeCard:
    """Let the present count decide the card's place in the prompt.

    Counts come from agents, so that they change no order by themselves (reliability D4).

    Raises:
        NotServable: agents are not given it.
        NotAllowed, ProjectArchived: see `check_card_decider`.
    """
    card = lock_card(card)
    check_card_decider(card, by=by)
    served = card.revisions.filter(served=True).first()
    if served is None:
        raise NotServable(f"This card is {card.status} and agents are not given it, so it has no place to change.")
    card.ranked_count = card.seen_count
    card.save(update_fields=["ranked_count"])
    record_card_review(card, served, _Decision.CONFIRM_COUNT, by, reason, request_id)
    return card


def lock_card(card: MistakeCard) -> MistakeCard:
    """Read the row again and hold it until the transaction ends."""
    return MistakeCard.objects.select_for_update().get(pk=card.pk)


def record_card_review(
    card: MistakeCard, revision: MistakeCardRevision, decision: str, by: Actor, reason: str, request_id: str
) -> None:
    """Append one decision on one exact text."""
    MistakeCardReview.objects.create(
        project_id=card.project_id,
        card=card,
        revision=revision,
        decision=decision,
        content_sha256=revision.content_sha256,
        seen_count=card.seen_count,
        reason=reason,
        reviewer=by.label,
        reviewer_user_id=by.user_id,
        reviewer_key_id=by.api_key_id,
        request_id=request_id,
    )


def _lock_proposed(card: MistakeCard) -> MistakeCard:
    card = lock_card(card)
    if card.merged_into_id is not None:
        raise AlreadyDecided("This card was merged into another. Decide on that one, or undo the merge.")
    if card.status != _Status.PROPOSED:
        raise AlreadyDecided(f"This card is {card.status}, not proposed: it was decided before.")
    return card


def _get_current(card: MistakeCard, content_sha256: str | None) -> MistakeCardRevision:
    # Locked, since words that nobody decided on yet may be brought up to date at any time.
    assert card.current_revision_id is not None  # every card is made with one
    current = MistakeCardRevision.objects.select_for_update().get(pk=card.current_revision_id)
    if content_sha256 is not None and content_sha256 != current.content_sha256:
        raise ChangedMeanwhile(
            "The text changed after you read it. Read the present text and decide again; its content_sha256 is "
            f"{current.content_sha256}."
        )
    return current


def _set_status(card: MistakeCard, status: str) -> None:
    card.status = status
    card.updated_at = timezone.now()
    card.save(update_fields=["status", "current_revision", "ranked_count", "updated_at"])
