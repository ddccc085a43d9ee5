"""The words of a mistake card: the newest that runs report wait for a decision, as revisions."""

from dataclasses import replace

from django.db import transaction

from memory.curation.decision_steps import lock_item, set_status
from memory.curation.reviewers import check_rights
from memory.errors import AlreadyDecided
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import MistakeText
from memory.projects.actors import Actor
from memory.runs.models import Trajectory

_Status = MistakeCard.Status


def note_words(card: MistakeCard, text: MistakeText, *, trajectory: Trajectory | None, by: Actor) -> None:
    """Keep the newest words of a locked card. Words that were approved stay served while newer ones wait."""
    current = card.current_revision
    if current is None:
        propose_words(card, text, trajectory=trajectory, by=by)
        return
    newest = replace(current.as_text(), **{name: words for name, words in text.words().items() if words})
    if newest.says_the_same_as(current.as_text()):
        return
    if not current.approved_sha256 and not current.reviews.exists():
        card.revisions.filter(pk=current.pk).update(**newest.words(), trajectory=trajectory, created_by=by.label)
        return
    if card.status in (_Status.REJECTED, _Status.RETIRED):
        return  # other words do not bring the card back
    if not any(newest.says_the_same_as(revision.as_text()) for revision in card.revisions.all()):
        propose_words(card, newest, trajectory=trajectory, by=by)


@transaction.atomic
def reopen_card(card: MistakeCard, *, by: Actor) -> MistakeCard:
    """Propose a rejected or retired card again, in a new revision: approvals are never reused.

    Raises:
        AlreadyDecided: it is neither, or was merged into another card.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    card = lock_item(card)
    check_rights(card, by=by)
    if card.status not in (_Status.REJECTED, _Status.RETIRED) or card.merged_into_id is not None:
        raise AlreadyDecided(f"This card is {card.status}: only rejected and retired cards are proposed again.")
    newest = card.revisions.order_by("-number")[0]
    propose_words(card, newest.as_text(), trajectory=newest.trajectory, by=by)
    return card


def propose_words(card: MistakeCard, text: MistakeText, *, trajectory: Trajectory | None, by: Actor) -> None:
    """Put words of a locked card before the reviewers, as its newest revision."""
    newest = card.revisions.order_by("-number").values_list("number", flat=True).first() or 0
    revision = card.revisions.create(
        project_id=card.project_id, number=newest + 1, trajectory=trajectory, created_by=by.label, **text.words()
    )
    revision.refresh_from_db(fields=["content_sha256", "lineage"])  # triggers compute them
    card.current_revision = revision
    set_status(card, _Status.PROPOSED)
