"""Which mistake cards say the same, by their vectors, and the automatic merge of two that do."""

import hashlib
from collections.abc import Collection
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet
from pgvector import HalfVector

from memory.embeddings.base import embed_composites
from memory.embeddings.registry import find_embedder
from memory.heuristics.models import HeuristicRevision
from memory.index.heuristic_vectors import get_active_model
from memory.meaning.comparison import MeaningVerdict
from memory.mistakes.merge import AUTOMATIC, IN_USE, merge_cards
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import MistakeText, compare_mistakes
from memory.retrieval.models import HeuristicEmbedding

log = structlog.get_logger(__name__)

_KIND = HeuristicEmbedding.Kind.MISTAKE
BATCH = 100  # cards at a time
MERGE_SIMILARITY = 0.75  # docs/memory.md has the curve
COMPARED = 10  # similar cards whose words are compared

# A pair whose merge was undone is never merged automatically again.
_SIMILAR = """
SELECT e.heuristic_id, -(e.vector <#> own.vector) AS similarity
FROM memory_heuristicembedding own
JOIN memory_heuristic mine ON mine.id = own.heuristic_id
JOIN memory_heuristicrevision said ON said.id = mine.current_revision_id
JOIN memory_heuristic c ON c.project_id = mine.project_id AND c.id <> mine.id AND c.kind = 'mistake'
    AND (c.status IN ('proposed', 'approved')
         OR %(mergeable)s AND c.status = 'superseded' AND c.superseded_by_id <> mine.id)
JOIN memory_heuristicrevision other ON other.id = c.current_revision_id
JOIN memory_heuristicembedding e ON e.heuristic_id = c.id AND e.embedding_model_id = own.embedding_model_id
    AND e.kind = 'mistake'
WHERE own.heuristic_id = %(card)s AND own.embedding_model_id = %(model)s AND own.kind = 'mistake'
    AND -(e.vector <#> own.vector) >= %(floor)s
    AND (NOT %(mergeable)s OR (
        other.task_id = said.task_id AND other.worker_id = said.worker_id
        AND NOT coalesce(c.details -> 'undone_merges', '[]') @> jsonb_build_array(jsonb_build_object('into', mine.id))
        AND NOT coalesce(mine.details -> 'undone_merges', '[]') @> jsonb_build_array(jsonb_build_object('into', c.id))))
ORDER BY similarity DESC, c.id LIMIT %(limit)s
"""


def find_similar_cards(card_id: UUID, *, floor: float, limit: int, mergeable: bool = False) -> list[tuple[UUID, float]]:
    """Return the most similar cards in use of the same project, each with the cosine of the two texts.

    Args:
        floor: the lowest cosine.
        mergeable: only cards that may be merged automatically: those of the same task family and worker, and those
            that are merged themselves, which lead to another.
    """
    model = get_active_model()
    with connection.cursor() as cursor:
        cursor.execute(
            _SIMILAR,
            {"card": card_id, "model": model.pk, "floor": floor, "limit": limit, "mergeable": mergeable},
        )
        return list(cursor.fetchall())


def merge_similar(card_id: UUID) -> None:
    """Merge a card with those that say the same, the younger into the older.

    Similarity finds the cards; their words decide. A card that agents are given is never merged into another
    automatically; the other is merged into it.

    Raises:
        EmbedderError: its words cannot be embedded now.
    """
    if not _embed(card_id):
        return
    candidates = find_similar_cards(card_id, floor=MERGE_SIMILARITY, limit=COMPARED, mergeable=True)
    for other_id, similarity in candidates:
        # Looked up each time: a merge earlier in the loop may have given the card another root.
        root_id, other_root_id = _find_root(card_id), _find_root(other_id)
        texts = _read_texts({card_id, other_id, root_id, other_root_id})
        comparison = compare_mistakes(texts[card_id], texts[other_id], similarity=similarity)
        if (
            root_id == other_root_id
            or comparison.verdict is not MeaningVerdict.SAME
            or _was_undone(root_id, other_root_id)
        ):
            continue
        # A chain of wordings may lead to another mistake: cards whose own words differ are never joined.
        if not compare_mistakes(texts[root_id], texts[other_root_id]).is_sure:
            _merge_pair(root_id, other_root_id, similarity=similarity)


def _find_root(card_id: UUID) -> UUID:
    """Return the card that counts for a card, itself where it was merged into none."""
    while into := MistakeCard.objects.filter(pk=card_id).values_list("superseded_by", flat=True).first():
        card_id = into
    return card_id


def _was_undone(card_id: UUID, other_id: UUID) -> bool:
    cards = MistakeCard.objects.in_bulk([card_id, other_id])
    return any(UUID(merge["into"]) in cards for card in cards.values() for merge in card.undone_merges)


def _merge_pair(card_id: UUID, other_id: UUID, *, similarity: float) -> None:
    with transaction.atomic():
        rows = MistakeCard.objects.select_for_update().filter(pk__in=[card_id, other_id]).order_by("pk")
        # Both were found without a lock and may have been merged since.
        pair = [row for row in rows if row.superseded_by_id is None]
        if len(pair) < 2:
            return
        served = [card.revisions.filter(served=True).exists() for card in pair]
        if all(served):
            return  # people merge two approved cards
        # By id, which grows with time. A served card stays whatever its age.
        older, younger = pair if not served[1] else pair[::-1]
        if older.status not in IN_USE:
            return
        merge_cards(younger, into=older, by=AUTOMATIC, similarity=round(similarity, 4))
    log.info("mistake_cards_merged", card_id=str(younger.pk), into_id=str(older.pk), similarity=round(similarity, 4))


def _read_texts(card_ids: Collection[UUID]) -> dict[UUID, MistakeText]:
    """Return the newest words of each card."""
    return {revision.heuristic_id: MistakeText.of(revision) for revision in _find_newest(card_ids)}


def _find_newest(card_ids: Collection[UUID]) -> QuerySet[HeuristicRevision]:
    """Return the newest wording of each card, decided on or not."""
    wordings = HeuristicRevision.objects.filter(heuristic__in=card_ids)
    return wordings.order_by("heuristic_id", "-number").distinct("heuristic_id")


def find_unsettled_cards() -> list[UUID]:
    """Return proposed cards whose words have no vector of the active model, oldest first."""
    model = get_active_model()
    if find_embedder(model.pk) is None:
        return []
    embedded = HeuristicEmbedding.objects.filter(heuristic=OuterRef("pk"), embedding_model=model, kind=_KIND)
    waiting = MistakeCard.objects.proposed().filter(~Exists(embedded)).order_by("created_at")
    return list(waiting.values_list("pk", flat=True)[:BATCH])


def _embed(card_id: UUID) -> bool:
    """Store the vector of a card's newest words; return whether there is one."""
    revision = _find_newest([card_id]).first()
    model = get_active_model()
    embedder = find_embedder(model.pk)
    if revision is None or embedder is None:
        return False
    texts = (revision.trigger, revision.avoid, revision.guideline, revision.rationale)
    sections = tuple(text for text in texts if text)
    sha256 = hashlib.sha256("\0".join(sections).encode()).hexdigest()
    vectors = HeuristicEmbedding.objects.filter(heuristic=card_id, embedding_model=model, kind=_KIND)
    if vectors.filter(revision=revision, text_sha256=sha256).exists():
        return True
    # Before the transaction: a service may take seconds.
    vector = HalfVector(embed_composites(embedder, [sections])[0])
    with transaction.atomic():
        vectors.delete()  # those of earlier words
        HeuristicEmbedding.objects.bulk_create(
            [
                HeuristicEmbedding(
                    project_id=revision.project_id,
                    heuristic_id=card_id,
                    revision=revision,
                    embedding_model=model,
                    kind=_KIND,
                    text_sha256=sha256,
                    vector=vector,
                )
            ],
            ignore_conflicts=True,  # another process made it at the same time
        )
    return True
