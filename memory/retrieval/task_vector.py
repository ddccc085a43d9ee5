"""The vector of a task, by the model whose vectors are searched."""

from memory.embeddings.cache import task_vectors
from memory.embeddings.registry import find_embedder, get_embedder
from memory.errors import EmbedderError
from memory.retrieval.breaker import Breaker
from memory.retrieval.database import QueryVector

DEADLINE_SECONDS = 0.3  # for an embedder on the network (A16)

breaker = Breaker(rest_seconds=5.0)


def embed_task(task: str, model_id: str) -> tuple[str, QueryVector]:
    """Return the id of the model that is searched and the task's vector by it.

    Args:
        model_id: of the active model; "" where none is active yet, as in a new database.

    Raises:
        EmbedderError: no embedder is configured, none is known for the model, or it gives no answer in time.
    """
    embedder = find_embedder(model_id) if model_id else get_embedder()
    if embedder is None:
        raise EmbedderError("There is no embedder for the vectors that are searched.", transient=False)
    vector = task_vectors.find(embedder.model_id, task)
    if vector is None:
        if breaker.is_resting:
            raise EmbedderError("The embedder failed a moment ago and is not asked again yet.")
        try:
            vector = task_vectors.make(embedder, task, timeout_seconds=DEADLINE_SECONDS)
        except EmbedderError:
            breaker.note(answered=False)
            raise
        breaker.note(answered=True)
    return embedder.model_id, QueryVector(vector)
