"""Remove an erased run from the mistake cards it was counted on."""

from uuid import UUID

from django.db.models import Exists, OuterRef

from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.provenance import Sources, WordOrigin, record_origins
from memory.mistakes.counts import lock_root, recount
from memory.mistakes.merge import stand_alone
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import COLUMNS
from memory.review.models import Review
from memory.runs.models import Trajectory


def forget_mistakes(trajectory: Trajectory) -> list[UUID]:
    """Delete the cards seen only in this run, and recount the others; return the ids of those deleted.

    Words of the run that wait for a decision are replaced by those of the newest other run. Call it in the transaction
    that erases the run, where deleting is allowed.
    """
    sightings = Evidence.objects.filter(trajectory=trajectory, heuristic__kind=Heuristic.Kind.MISTAKE)
    ids = list(sightings.values_list("heuristic_id", flat=True))
    # In one order, so that two erasures cannot deadlock.
    cards = list(MistakeCard.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
    sightings.delete()
    orphans = [card for card in cards if not card.imported_count and not card.evidence.exists()]
    others = [card for card in cards if card not in orphans]
    deleted = [card.pk for card in orphans]
    for card in orphans:
        delete_card(card)
    for card in others:
        _replace_words(card, trajectory)
        # Deleting an orphan may have changed which card counts the runs of this one.
        card.refresh_from_db()
        recount(lock_root(card))
    return deleted


def delete_card(card: MistakeCard) -> None:
    """Delete a card. Those merged into it stand by themselves; what agents were given of them is not given again."""
    parts = list(MistakeCard.objects.select_for_update().filter(superseded_by=card.pk).order_by("pk"))
    into = MistakeCard.objects.filter(pk=card.superseded_by_id).first()
    for part in parts:
        was_served = part.merge is not None and part.merge["served"] is not None
        stand_alone(part, status=Heuristic.Status.RETIRED if was_served else Heuristic.Status.PROPOSED)
        recount(part)
    card.delete()
    if into is not None:
        recount(lock_root(MistakeCard.objects.select_for_update().get(pk=into.pk)))


def _replace_words(card: MistakeCard, trajectory: Trajectory) -> None:
    decided = Review.objects.filter(revision_id=OuterRef("pk"))
    waiting = card.revisions.filter(~Exists(decided), approved_sha256="").order_by("-number").first()
    newest = card.evidence.order_by("-created_at", "-id").first()
    reported = newest.words if newest is not None else None
    if waiting is None or newest is None or not reported or not any(reported.values()):
        return
    if WordOrigin.objects.filter(wording_id=waiting.pk, trajectory_id=trajectory.pk).exists():
        words = {COLUMNS[name]: text for name, text in reported.items()}
        card.revisions.filter(pk=waiting.pk).update(**words)
        record_origins(waiting, Sources(runs=(newest.trajectory_id,)))
