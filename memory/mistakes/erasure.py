"""Remove an erased run from the mistake cards it was counted on."""

from uuid import UUID

from memory.mistakes.counts import lock_root, recount
from memory.mistakes.models import MistakeCard, MistakeCardRevision
from memory.runs.models import Trajectory

_WORDS = ("bad_decision", "correct_decision", "lesson")


def forget_mistakes(trajectory: Trajectory) -> list[UUID]:
    """Delete the cards seen only in this run, and recount the others; return the ids of those deleted.

    Words of the run that wait for a decision are replaced by those of the newest other run. Call it in the transaction
    that erases the run, where deleting is allowed.
    """
    ids = list(trajectory.mistake_sightings.values_list("card_id", flat=True))
    cards = list(MistakeCard.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
    trajectory.mistake_sightings.all().delete()
    orphans = [card for card in cards if not card.imported_count and not card.sightings.exists()]
    others = [card for card in cards if card not in orphans]
    deleted = [card.pk for card in orphans]
    for card in orphans:
        _delete(card)
    for card in others:
        _replace_words(card, trajectory)
        card.refresh_from_db(fields=["merged_into"])
        recount(lock_root(card))
    return deleted


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


def _replace_words(card: MistakeCard, trajectory: Trajectory) -> None:
    waiting = MistakeCardRevision.objects.filter(
        card=card, trajectory=trajectory, approved_sha256="", reviews__isnull=True
    ).first()
    newest = card.sightings.first()
    if waiting is None or newest is None:
        return
    words = {name: getattr(newest, name) for name in _WORDS}
    if any(words.values()):
        card.revisions.filter(pk=waiting.pk).update(**words, trajectory=newest.trajectory)
