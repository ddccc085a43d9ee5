"""A change of the embedding model, with no moment in which searches find nothing (reliability C7)."""

from collections.abc import Iterator
from dataclasses import dataclass

from memory.embeddings.base import Embedder
from memory.errors import EmbedderError
from memory.index.heuristic_vectors import embed_heuristics, find_heuristics_without_vectors
from memory.retrieval.candidates import find_in_database
from memory.retrieval.database_search import Search
from memory.retrieval.models import EmbeddingModel, Retrieval
from memory.retrieval.scoring import MEANING_WEIGHT
from memory.retrieval.task_vector import make_query_vector

BATCH = 50
COMPARED_DEPTH = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelComparison:
    """How much of the first ten two models have in common, 0–1, in the mean over recorded tasks."""

    tasks: int
    overlap: float


def make_vectors(model: EmbeddingModel) -> Iterator[int]:
    """Make the vectors of a model that are lacking; yield the number of heuristics done, batch by batch.

    It may be stopped and run again at any time, and twice at once.

    Raises:
        EmbedderError: the embedder gives none.
    """
    before: list[object] = []
    while ids := find_heuristics_without_vectors(limit=BATCH, model=model):
        # The same ones are still lacking, so another round would not end.
        if ids == before:
            raise EmbedderError("The embedder gives no vectors. The log says why.")
        embed_heuristics(ids, model=model)
        yield len(ids)
        before = list(ids)


def compare_rankings(old: Embedder, new: Embedder, *, limit: int) -> ModelComparison:
    """Search for the newest `limit` different recorded tasks by both models.

    Raises:
        EmbedderError: one of them does not answer.
    """
    rows = Retrieval.objects.order_by("-created_at").values_list("project_id", "task")[: 10 * limit]
    shares = []
    for project_id, task in list(dict.fromkeys(rows))[:limit]:
        rankings = []
        for embedder in (old, new):
            search = Search(
                project_id=project_id,
                task=task,
                vector=make_query_vector(embedder, task),
                model_id=embedder.model_id,
                meaning_weight=MEANING_WEIGHT,
                limit=COMPARED_DEPTH,
            )
            rankings.append({lesson.heuristic_id for lesson in find_in_database(search, model_id=embedder.model_id)})
        if any(rankings):
            shares.append(len(rankings[0] & rankings[1]) / max(map(len, rankings)))
    return ModelComparison(tasks=len(shares), overlap=sum(shares) / len(shares) if shares else 1.0)
