"""Decisions on mistake cards, and the words that wait for one.

Each decision is one function and leaves a Review; proposing a card again leaves a new revision. Every decision raises
NotAllowed or ProjectArchived where the actor may not decide, see `check_rights`.
"""

from dataclasses import replace

from django.db import transaction

from memory.curation.decision_steps import get_current_revision, serve_revision, set_status
from memory.curation.decisions import retire_heuristic
from memory.errors import AlreadyDecided, NotServable, TooLateToUndo
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.provenance import OWN_WORDS, Sources, record_origins
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import MistakeText
from memory.projects.actors import Actor
from memory.review.decisions import add_revision, check_rights, check_undoable, find_owners, lock_subject, record_review
from memory.review.models import Review
from memory.runs.models import Trajectory

_Status = Heuristic.Status
_Decision = Review.Decision


@transaction.atomic
def approve_card(card: MistakeCard, *, by: Actor, content_sha256: str, reason: str = "") -> MistakeCard:
    """Give agents the newest words from now on, in place of any earlier ones.

    One person is enough in a project that requires two reviewers, but it has to be a person.

    Args:
        content_sha256: the hash of the words that were read, or that a policy judged.

    Raises:
        AlreadyDecided: it is not waiting for a decision.
        ChangedMeanwhile: the words are not those that were read.
    """
    card = lock_subject(card)
    project = check_rights(card, by=by)
    if card.status != _Status.PROPOSED:
        raise AlreadyDecided(f"This card is {card.status}, not proposed: it was already decided.")
    if project.four_eyes:
        # One person is enough for a card, but a policy or a key without an owner is no person.
        find_owners(by)
    revision = get_current_revision(card, content_sha256=content_sha256)
    serve_revision(card, revision, by=by)
    card.approved_support = card.support
    set_status(card, _Status.APPROVED, "approved_support")
    record_review(card, revision, _Decision.APPROVE, by=by, reason=reason)
    return card


@transaction.atomic
def confirm_count(card: MistakeCard, *, by: Actor, reason: str = "") -> MistakeCard:
    """Let the present count decide the card's place in the prompt.

    Counts come from agents, so they change no order by themselves (reliability D4).

    Raises:
        NotServable: agents are not given it.
    """
    card = lock_subject(card)
    check_rights(card, by=by)
    served = card.revisions.filter(served=True).first()
    if served is None:
        raise NotServable(f"This mistake card is {card.status} and is not being served, so it has no place to change.")
    card.approved_support = card.support
    card.save(update_fields=["approved_support"])
    record_review(card, served, _Decision.CONFIRM_EVIDENCE, by=by, reason=reason)
    return card


def note_words(card: MistakeCard, text: MistakeText, *, trajectory: Trajectory | None, by: Actor) -> None:
    """Keep the newest words of a locked card. Words that were approved stay served while newer ones wait."""
    current = card.current_revision
    if current is None:
        propose_words(card, text, sources=_name_sources(trajectory, by), by=by)
        return
    current_text = MistakeText.of(current)
    # A report may leave a part out; what was known of it stays.
    newest = replace(current_text, **{name: words for name, words in text.words().items() if words})
    if newest.says_the_same_as(current_text):
        return
    if not current.approved_sha256 and not current.reviews.exists():
        card.revisions.filter(pk=current.pk).update(**newest.columns(), created_by=by.label)
        # The new words may keep a part of the old ones, so that origins are added and none is taken away.
        record_origins(current, _name_sources(trajectory, by))
        return
    if card.status not in (_Status.PROPOSED, _Status.APPROVED):
        return  # other words do not bring the card back
    if not any(newest.says_the_same_as(MistakeText.of(revision)) for revision in card.revisions.all()):
        propose_words(card, newest, sources=_name_sources(trajectory, by), by=by)


def _name_sources(trajectory: Trajectory | None, by: Actor) -> Sources:
    """Return whose words they are: those of the run that reported them, or of who sent or imported them."""
    if trajectory is not None:
        return Sources(runs=(trajectory.pk,))
    return Sources(client=by.label.removeprefix("key:"))


@transaction.atomic
def undo_card_review(review: Review, *, by: Actor) -> MistakeCard:
    """Take back an approval or a rejection made by mistake: the words wait again, in a new revision.

    Raises:
        TooLateToUndo: it is too old, another person's, not the latest decision, or replaced other words.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    card = MistakeCard.objects.select_for_update().get(pk=review.subject_id)
    check_rights(card, by=by)
    check_undoable(card, review, by=by, of=(_Decision.APPROVE, _Decision.REJECT))
    if card.revisions.filter(approved_at__isnull=False).exclude(pk=review.revision_id).exists():
        raise TooLateToUndo("It had other words in use before, which are not put back. Retire the card instead.")
    if review.decision == _Decision.APPROVE:
        retire_heuristic(card, by=by, reason="Undid: approve.")
    return reopen_card(card, by=by)


@transaction.atomic
def reopen_card(card: MistakeCard, *, by: Actor) -> MistakeCard:
    """Propose a rejected or retired card again, in a new revision: approvals are never reused.

    Raises:
        AlreadyDecided: it is neither.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    card = lock_subject(card)
    check_rights(card, by=by)
    if card.status not in (_Status.REJECTED, _Status.RETIRED):
        raise AlreadyDecided(f"This card is {card.status}: only rejected and retired cards are proposed again.")
    newest = card.revisions.order_by("-number")[0]
    # A trigger lets the new wording descend from the one before it, with the same words.
    propose_words(card, MistakeText.of(newest), sources=OWN_WORDS, by=by)
    return card


def propose_words(card: MistakeCard, text: MistakeText, *, sources: Sources, by: Actor) -> None:
    """Put words of a locked card before the reviewers, as its newest revision."""
    polarity = HeuristicRevision.Polarity.AVOID
    revision = add_revision(card, by=by, kind=card.kind, polarity=polarity, **text.columns())
    revision.refresh_from_db(fields=["content_sha256", "lineage"])  # triggers compute them
    record_origins(revision, sources)
    card.current_revision = revision
    set_status(card, _Status.PROPOSED)
