"""Which mistake cards say the same, by their vectors, and the automatic merge of two that do."""

import hashlib
from collections.abc import Collection
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from pgvector import HalfVector

from memory.embeddings.base import embed_composites
from memory.embeddings.registry import find_embedder
from memory.index.heuristic_vectors import get_active_model
from memory.meaning.comparison import Verdict
from memory.mistakes.merge import AUTOMATIC, IN_USE, merge_cards
from memory.mistakes.models import MistakeCard, MistakeCardRevision, MistakeEmbedding, MistakeMerge
from memory.mistakes.reports import MistakeText, compare_mistakes

log = structlog.get_logger(__name__)

BATCH = 100  # cards at a time
MERGE_SIMILARITY = 0.75  # docs/memory.md has the curve
COMPARED = 10  # similar cards whose words are compared

# A pair whose merge was undone is never merged automatically again.
_SIMILAR = """
SELECT e.card_id, -(e.vector <#> own.vector) AS similarity
FROM memory_mistakeembedding own
JOIN memory_mistakecard mine ON mine.id = own.card_id
JOIN memory_mistakecard c ON c.project_id = mine.project_id AND c.id <> mine.id
    AND (c.merged_into_id IS NULL OR %(mergeable)s AND c.merged_into_id <> mine.id)
    AND c.status IN ('proposed', 'approved')
JOIN memory_mistakeembedding e ON e.card_id = c.id AND e.embedding_model_id = own.embedding_model_id
WHERE own.card_id = %(card)s AND own.embedding_model_id = %(model)s AND -(e.vector <#> own.vector) >= %(floor)s
    AND (NOT %(mergeable)s OR (
        c.task_id = mine.task_id AND c.worker_id = mine.worker_id
        AND NOT EXISTS (SELECT FROM memory_mistakemerge m WHERE m.undone_at IS NOT NULL
                        AND (m.card_id, m.into_id) IN ((mine.id, c.id), (c.id, mine.id)))))
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
    found = find_similar_cards(card_id, floor=MERGE_SIMILARITY, limit=COMPARED, mergeable=True)
    for other_id, similarity in found:
        root_id, other_root_id = _find_root(card_id), _find_root(other_id)
        texts = _read_texts({card_id, other_id, root_id, other_root_id})
        said = compare_mistakes(texts[card_id], texts[other_id], similarity=similarity)
        if root_id == other_root_id or said.verdict is not Verdict.SAME or _was_undone(root_id, other_root_id):
            continue
        # A chain of wordings may lead to another mistake: cards whose own words differ are never joined.
        if not compare_mistakes(texts[root_id], texts[other_root_id]).is_sure:
            _merge_pair(root_id, other_root_id, similarity=similarity)


def _find_root(card_id: UUID) -> UUID:
    """Return the card that counts for a card, itself where it was merged into none."""
    while into := MistakeCard.objects.filter(pk=card_id).values_list("merged_into", flat=True).first():
        card_id = into
    return card_id


def _was_undone(card_id: UUID, other_id: UUID) -> bool:
    pair = (card_id, other_id)
    return MistakeMerge.objects.filter(card__in=pair, into__in=pair, undone_at__isnull=False).exists()


def _merge_pair(card_id: UUID, other_id: UUID, *, similarity: float) -> None:
    with transaction.atomic():
        rows = MistakeCard.objects.select_for_update().filter(pk__in=[card_id, other_id]).order_by("pk")
        pair = [each for each in rows if each.merged_into_id is None]
        if len(pair) < 2:
            return
        served = [each.revisions.filter(served=True).exists() for each in pair]
        if all(served):
            return  # people merge two approved cards
        older, younger = pair if not served[1] else pair[::-1]
        if older.status not in IN_USE:
            return
        merge_cards(younger, into=older, by=AUTOMATIC, similarity=round(similarity, 4))
    log.info("mistake_cards_merged", card_id=str(younger.pk), into_id=str(older.pk), similarity=round(similarity, 4))


def _read_texts(card_ids: Collection[UUID]) -> dict[UUID, MistakeText]:
    """Return the newest words of each card."""
    newest = MistakeCardRevision.objects.filter(card__in=card_ids).order_by("card_id", "-number").distinct("card_id")
    return {revision.card_id: revision.as_text() for revision in newest}


def find_unsettled_cards() -> list[UUID]:
    """Return proposed cards whose words have no vector of the active model, oldest first."""
    model = get_active_model()
    if find_embedder(model.pk) is None:
        return []
    embedded = MistakeEmbedding.objects.filter(card=OuterRef("pk"), embedding_model=model)
    waiting = MistakeCard.objects.proposed().filter(~Exists(embedded)).order_by("created_at")
    return list(waiting.values_list("pk", flat=True)[:BATCH])


def _embed(card_id: UUID) -> bool:
    """Store the vector of a card's newest words; return whether there is one."""
    revision = MistakeCardRevision.objects.filter(card=card_id).order_by("-number").first()
    model = get_active_model()
    embedder = find_embedder(model.pk)
    if revision is None or embedder is None:
        return False
    texts = (revision.mistake_type, revision.bad_decision, revision.correct_decision, revision.lesson)
    sections = tuple(text for text in texts if text)
    sha256 = hashlib.sha256("\0".join(sections).encode()).hexdigest()
    if MistakeEmbedding.objects.filter(card=card_id, embedding_model=model, text_sha256=sha256).exists():
        return True
    vector = HalfVector(embed_composites(embedder, [sections])[0])
    MistakeEmbedding.objects.update_or_create(
        card_id=card_id,
        embedding_model=model,
        defaults={"project_id": revision.project_id, "text_sha256": sha256, "vector": vector},
    )
    return True
