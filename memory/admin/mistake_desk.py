"""What the page of a mistake card shows: its words, its runs, what is like it and what was decided."""

from dataclasses import dataclass
from typing import Any

from django.db import connection

from memory.admin.word_diff import diff_words
from memory.index.heuristic_vectors import get_active_model
from memory.mistakes.models import MistakeCard, MistakeCardRevision, MistakeMerge
from memory.retrieval.context import count_tokens
from memory.retrieval.track_record import Mistake, write_mistake

SHOWN_RUNS, SHOWN_NEIGHBOURS = 20, 5
LIKE_FROM = 0.6  # cosine below which another card is not worth a look

_NEIGHBOURS = """
SELECT e.card_id, -(e.vector <#> own.vector) AS similarity
FROM memory_mistakeembedding own
JOIN memory_mistakeembedding e ON e.project_id = own.project_id AND e.embedding_model_id = own.embedding_model_id
    AND e.card_id <> own.card_id
JOIN memory_mistakecard c ON c.id = e.card_id AND c.merged_into_id IS NULL AND c.status IN ('proposed', 'approved')
WHERE own.card_id = %s AND own.embedding_model_id = %s AND -(e.vector <#> own.vector) >= %s
ORDER BY similarity DESC, e.card_id LIMIT %s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """Another card that may say the same, and how alike the two are in percent."""

    card: MistakeCard
    percent: int
    diff: Any


def card_context(card: MistakeCard, *, may_review: bool) -> dict[str, Any]:
    """Collect all that the template needs, in a fixed number of queries."""
    revision = card.current_revision
    assert revision is not None
    served = card.revisions.filter(served=True).first()
    line = write_card_line(card, revision)
    waiting = card.status == MistakeCard.Status.PROPOSED and card.merged_into_id is None
    older = served if served is not None and served.pk != revision.pk else None
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
        "received": list(
            MistakeMerge.objects.filter(into=card, undone_at__isnull=True).select_related("card__current_revision")
        ),
        "undone": list(MistakeMerge.objects.filter(into=card, undone_at__isnull=False).select_related("card")),
        "neighbours": _find_neighbours(card, revision) if waiting or served is not None else [],
        "reviews": list(card.reviews.select_related("revision")),
        "title": "Mistake card",
    }


def write_card_line(card: MistakeCard, revision: MistakeCardRevision) -> str:
    """Return the card as it stands in an agent's prompt."""
    words = {name: getattr(revision, name) for name in ("mistake_type", "bad_decision", "correct_decision", "lesson")}
    return write_mistake(Mistake(id=str(card.pk), seen_count=card.seen_count, **words))[0]


def _find_neighbours(card: MistakeCard, revision: MistakeCardRevision) -> list[Neighbour]:
    with connection.cursor() as cursor:
        cursor.execute(_NEIGHBOURS, [card.pk, get_active_model().pk, LIKE_FROM, SHOWN_NEIGHBOURS])
        likeness = dict(cursor.fetchall())
    found = MistakeCard.objects.with_text().filter(pk__in=likeness)
    near = [
        Neighbour(
            card=each,
            percent=round(100 * likeness[each.pk]),
            diff=diff_words(_spell_out(revision), _spell_out(each.current_revision)),
        )
        for each in found
        if each.current_revision is not None
    ]
    return sorted(near, key=lambda neighbour: -neighbour.percent)


def _spell_out(revision: MistakeCardRevision) -> str:
    lines = [f"Mistake: {revision.bad_decision}", f"Instead: {revision.correct_decision}", f"Lesson: {revision.lesson}"]
    return "\n".join(line for line in lines if not line.endswith(": "))
