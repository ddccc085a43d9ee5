"""The vector of a task, by the model whose vectors are searched."""

import time
from threading import Lock

from memory.embeddings.base import Embedder, Vectors
from memory.embeddings.cache import task_vectors
from memory.embeddings.registry import find_embedder, get_embedder
from memory.errors import EmbedderError
from memory.retrieval.breaker import Breaker
from memory.retrieval.database import QueryVector, read_prepared

DEADLINE_SECONDS = 0.3  # for an embedder on the network (A16)
KNOWN_SECONDS = 5.0  # how long a process may not know that another model became active


class ActiveModel:
    """Remembers which model is active, so that not every answer asks for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._id = ""
        self._known_until = 0.0

    def get_id(self) -> str:
        """Return the id of the active model, or "" where none is."""
        with self._lock:
            if time.monotonic() > self._known_until:
                rows = read_prepared("SELECT id FROM memory_embeddingmodel WHERE active", {})
                self._id = rows[0][0] if rows else ""
                self._known_until = time.monotonic() + KNOWN_SECONDS
            return self._id

    def forget(self) -> None:
        """Ask again the next time."""
        self._known_until = 0.0


active_model = ActiveModel()
breaker = Breaker(rest_seconds=5.0)


def embed_task(task: str) -> tuple[str, QueryVector]:
    """Return the active model's id and the task's vector by it.

    Raises:
        EmbedderError: no embedder is configured, none is known for the model, or it gives no answer in time.
    """
    model_id = active_model.get_id()
    embedder = find_embedder(model_id) if model_id else get_embedder()
    if embedder is None:
        raise EmbedderError("There is no embedder for the vectors that are searched.", transient=False)
    known = task_vectors.find(embedder.model_id, task)
    return embedder.model_id, QueryVector(known if known is not None else _ask(embedder, task))


def _ask(embedder: Embedder, task: str) -> Vectors:
    if breaker.is_resting:
        raise EmbedderError("The embedder did not answer a moment ago and is not asked again yet.")
    try:
        vector = task_vectors.make(embedder, task, timeout_seconds=DEADLINE_SECONDS)
    except EmbedderError:
        breaker.note(answered=False)
        raise
    breaker.note(answered=True)
    return vector
