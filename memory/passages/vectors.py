"""What makes passages searchable, as lessons are: vectors by the active model, words and names."""

from collections.abc import Collection, Sequence
from uuid import UUID

import structlog
from django.db import connection
from django.db.models import Exists, OuterRef
from pgvector import HalfVector

from memory.embeddings.base import embed_composites
from memory.embeddings.registry import find_embedder
from memory.errors import EmbedderError
from memory.index.heuristic_vectors import get_active_model, get_wanted_model
from memory.passages.models import Passage, PassageEmbedding
from memory.retrieval.models import EmbeddingModel

log = structlog.get_logger(__name__)

BATCH = 100

_INSERT = """
INSERT INTO memory_passageembedding (project_id, passage_id, embedding_model_id, vector, terms, term_ids, names)
SELECT project_id, id, %(model)s, %(vector)s::halfvec, memory_text_vector(project_id, said),
       coalesce((SELECT array_agg(term ORDER BY term) FROM memory_terms(project_id, said)), '{}'), memory_names(said)
FROM (SELECT id, project_id, concat_ws(E'\\n', text, nullif(array_to_string(tags, E'\\n'), '')) AS said
      FROM memory_passage WHERE id = %(passage)s) AS p
ON CONFLICT (passage_id, embedding_model_id) DO UPDATE
SET vector = coalesce(EXCLUDED.vector, memory_passageembedding.vector)
"""


def get_searched_model() -> EmbeddingModel:
    """Return the active model; before the first is active, the one that will be. A request may not activate one."""
    return EmbeddingModel.objects.filter(active=True).first() or get_wanted_model()


def index_words(passage_id: UUID) -> None:
    """Make a passage findable by its words and names, in the transaction that writes it."""
    # Without a vector yet: an embedder must not be asked inside a transaction.
    _store([passage_id], [None], get_searched_model())


def embed_passages(passage_ids: Collection[UUID], *, model: EmbeddingModel | None = None) -> int:
    """Make the vectors of passages; return how many were made. Safe to repeat.

    Where the embedder does not answer, passages are found by their words until `embed_new_passages` has caught up.
    """
    model = model or get_searched_model()
    embedder = find_embedder(model.pk)
    passages = list(Passage.objects.filter(pk__in=passage_ids).order_by("pk"))
    if embedder is None or not passages:
        return 0
    try:
        made = embed_composites(embedder, [[passage.text] for passage in passages])
    except EmbedderError as error:
        log.warning("passages_not_embedded", reason=str(error), count=len(passages))
        return 0
    _store([row.pk for row in passages], [HalfVector(vector).to_text() for vector in made], model)
    return len(passages)


def embed_new_passages(*, model: EmbeddingModel | None = None, limit: int = BATCH) -> int:
    """Make vectors that are missing, the oldest first; return how many were made."""
    model = model or get_active_model()
    if find_embedder(model.pk) is None:
        return 0
    done = PassageEmbedding.objects.filter(passage=OuterRef("pk"), embedding_model=model, vector__isnull=False)
    lacking = Passage.objects.filter(~Exists(done)).order_by("created_at", "pk").values_list("pk", flat=True)
    return embed_passages(list(lacking[:limit]), model=model)


def make_passage_vectors(model: EmbeddingModel) -> None:
    """Make the vectors of a model that are lacking. It may be stopped and run again.

    Raises:
        EmbedderError: the embedder gives none.
    """
    done = PassageEmbedding.objects.filter(passage=OuterRef("pk"), embedding_model=model, vector__isnull=False)
    while find_embedder(model.pk) is not None and Passage.objects.filter(~Exists(done)).exists():
        # Some are lacking and none was made, so another round would not end.
        if not embed_new_passages(model=model):
            raise EmbedderError("The embedder gives no vectors. The log says why.")


def delete_vectors_of_other_models(kept: EmbeddingModel) -> int:
    """Delete what belongs to every model but one; return how many rows there were."""
    return PassageEmbedding.objects.exclude(embedding_model=kept).delete()[0]


def _store(passage_ids: Sequence[UUID], vectors: Sequence[str | None], model: EmbeddingModel) -> None:
    rows = [
        {"passage": pk, "model": model.pk, "vector": vector} for pk, vector in zip(passage_ids, vectors, strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT, rows)
