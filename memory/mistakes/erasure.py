"""Take a run out of the mistakes it was counted on, when it is erased."""

from memory.mistakes.counts import lock_root, recount
from memory.mistakes.models import MistakeCard, MistakeCardRevision, MistakeSighting
from memory.runs.models import Trajectory

_WORDS = ("bad_decision", "correct_decision", "lesson")


def forget_mistakes(trajectory: Trajectory) -> int:
    """Delete the cards that rest on this run alone and count the others anew; return how many went.

    Words of the run that wait for a decision give way to those of the newest other run. Runs inside the transaction
    that erases the run, where deleting is allowed.
    """
    ids = list(trajectory.mistake_sightings.values_list("card_id", flat=True))
    cards = list(MistakeCard.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
    trajectory.mistake_sightings.all().delete()
    orphans = [card for card in cards if not card.imported_count and not card.sightings.exists()]
    for card in orphans:
        _delete(card)
    gone = {card.pk for card in orphans}
    for card in cards:
        if card.pk not in gone:
            _use_other_words(card, trajectory)
            card.refresh_from_db(fields=["merged_into"])
            recount(lock_root(card))
    return len(gone)


def _delete(card: MistakeCard) -> None:
    parts = list(card.merged_cards.select_for_update().order_by("pk"))
    into = card.merged_into
    card.delete()
    for part in parts:
        part.merged_into = None
        part.save(update_fields=["merged_into"])
        recount(part)
    if into is not None:
        recount(lock_root(into))


def _use_other_words(card: MistakeCard, trajectory: Trajectory) -> None:
    waiting = MistakeCardRevision.objects.filter(
        card=card, trajectory=trajectory, approved_sha256="", reviews__isnull=True
    ).first()
    other = MistakeSighting.objects.filter(card=card).first()
    if waiting is not None and other is not None:
        said = {name: getattr(other, name) for name in _WORDS}
        if any(said.values()):
            MistakeCardRevision.objects.filter(pk=waiting.pk).update(**said, trajectory=other.trajectory)
