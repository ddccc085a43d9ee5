"""What the page of a mistake card shows: its words, its runs, similar cards and the decisions on it."""

from dataclasses import dataclass
from typing import Any

from memory.admin.word_diff import diff_words
from memory.mistakes.models import MistakeCard, MistakeCardRevision, MistakeMerge
from memory.mistakes.similarity import find_similar_cards
from memory.retrieval.context import count_tokens
from memory.retrieval.record_block import Mistake, write_mistake

SHOWN_RUNS, SHOWN_NEIGHBOURS = 20, 5
NEIGHBOURS_FROM = 0.6  # the lowest cosine of a card worth comparing


@dataclass(frozen=True, kw_only=True, slots=True)
class SimilarCard:
    """Another card that may say the same, with the similarity of the two in percent."""

    card: MistakeCard
    percent: int
    diff: Any


def card_context(card: MistakeCard, *, may_review: bool) -> dict[str, Any]:
    """Collect what the template needs, in a fixed number of queries."""
    revision = card.current_revision
    assert revision is not None
    served = card.revisions.filter(served=True).first()
    line = write_card_line(card, revision)
    waiting = card.status == MistakeCard.Status.PROPOSED and card.merged_into_id is None
    older = served if served is not None and served.pk != revision.pk else None
    received = list(MistakeMerge.objects.filter(into=card).select_related("card__current_revision"))
    return {
        "card": card,
        "revision": revision,
        "served": served,
        "difference": diff_words(_spell_out(older), _spell_out(revision)) if older else None,
        "agent_line": line,
        "tokens": count_tokens(line + "\n"),
        "waiting": waiting,
        "may_review": may_review,
        "sightings": list(card.sightings.select_related("trajectory")[:SHOWN_RUNS]),
        "merge": MistakeMerge.objects.filter(card=card, undone_at__isnull=True).select_related("into").first(),
        "received": [merge for merge in received if merge.undone_at is None],
        "undone": [merge for merge in received if merge.undone_at is not None],
        "neighbours": _find_neighbours(card, revision) if waiting or served is not None else [],
        "reviews": list(card.reviews.select_related("revision")),
        "title": "Mistake card",
    }


def write_card_line(card: MistakeCard, revision: MistakeCardRevision) -> str:
    """Return the card as an agent reads it in the prompt."""
    words = {name: getattr(revision, name) for name in ("mistake_type", "bad_decision", "correct_decision", "lesson")}
    return write_mistake(Mistake(id=str(card.pk), seen_count=card.seen_count, **words))[0]


def _find_neighbours(card: MistakeCard, revision: MistakeCardRevision) -> list[SimilarCard]:
    similar = find_similar_cards(card.pk, floor=NEIGHBOURS_FROM, limit=SHOWN_NEIGHBOURS)
    cards = MistakeCard.objects.with_text().in_bulk([card_id for card_id, _ in similar])
    return [
        SimilarCard(
            card=cards[card_id],
            percent=round(100 * similarity),
            diff=diff_words(_spell_out(revision), _spell_out(cards[card_id].current_revision)),
        )
        for card_id, similarity in similar
        if card_id in cards
    ]


def _spell_out(revision: MistakeCardRevision | None) -> str:
    assert revision is not None  # every card is made with one
    lines = [f"Mistake: {revision.bad_decision}", f"Instead: {revision.correct_decision}", f"Lesson: {revision.lesson}"]
    return "\n".join(line for line in lines if not line.endswith(": "))
