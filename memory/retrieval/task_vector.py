"""The vector of a task, by the model whose vectors are searched."""

from functools import lru_cache

from memory.egress import Breaker
from memory.embeddings.base import Embedder, embed_composites
from memory.embeddings.registry import find_embedder, get_embedder
from memory.errors import EmbedderError
from memory.retrieval.database import QueryVector

DEADLINE_SECONDS = 0.3  # for an embedder on the network (A16)
CACHED_TASKS = 256  # of each process, for agents that ask again; embedding takes 2 ms or more
MAX_TASK_PARTS = 4  # of 500 characters; more parts cost 20 ms each and find nothing more (docs/retrieval.md)

breaker = Breaker(rest_seconds=5.0)


def embed_task(task: str, model_id: str) -> tuple[str, QueryVector]:
    """Return the id of the model that is searched and the task's vector by it.

    Args:
        model_id: of the active model; "" where none is active yet, as in a new database.

    Raises:
        EmbedderError: no embedder is configured, none is known for the model, or it gives no answer in time.
    """
    # Vectors of two models must not be compared, so the searched one decides, not the settings.
    embedder = find_embedder(model_id) if model_id else get_embedder()
    if embedder is None:
        raise EmbedderError("There is no embedder for the vectors that are searched.", transient=False)
    return embedder.model_id, _ask(embedder, task)


class AskedOnce:
    """The vector of a task for one answer. An embedder that gave none is not asked again for the same answer."""

    def __init__(self, task: str, model_id: str) -> None:
        self._asked = task, model_id
        self._error: EmbedderError | None = None

    def embed(self) -> tuple[str, QueryVector]:
        """Return what `embed_task` does.

        Raises:
            EmbedderError: from `embed_task`, now or the time before.
        """
        if self._error is not None:
            raise self._error
        try:
            return embed_task(*self._asked)
        except EmbedderError as error:
            self._error = error
            raise


@lru_cache(maxsize=CACHED_TASKS)  # failures are not kept
def _ask(embedder: Embedder, task: str) -> QueryVector:
    if breaker.is_resting:
        raise EmbedderError("The embedder failed a moment ago and is still paused.")
    try:
        vector = make_query_vector(embedder, task, timeout_seconds=DEADLINE_SECONDS)
    except EmbedderError:
        breaker.note(answered=False)
        raise
    breaker.note(answered=True)
    return vector


def make_query_vector(embedder: Embedder, task: str, *, timeout_seconds: float | None = None) -> QueryVector:
    """Embed a task.

    Raises:
        EmbedderError: from the embedder.
    """
    vectors = embed_composites(embedder, [[task]], max_parts=MAX_TASK_PARTS, timeout_seconds=timeout_seconds)
    return QueryVector(vectors[0])
