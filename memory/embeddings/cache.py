"""A cache of recent task vectors: embedding takes 5 ms or more, a cache hit a few microseconds."""

import hashlib
from collections import OrderedDict
from threading import Lock

from memory.embeddings.base import Embedder, Vectors
from memory.embeddings.composite import embed_composites

CAPACITY = 1000  # vectors of 1.5 kB
MAX_TASK_PARTS = 4  # of 500 characters; more parts cost 20 ms each and find nothing more (docs/retrieval.md)


class TaskVectorCache:
    """The most recently used vectors by model id and SHA-256 of the task. Safe to share between threads."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._vectors: OrderedDict[tuple[str, bytes], Vectors] = OrderedDict()

    def find(self, model_id: str, task: str) -> Vectors | None:
        """Return the cached vector of a task, or None."""
        key = _get_key(model_id, task)
        with self._lock:
            if (known := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
        return known

    def embed(self, embedder: Embedder, task: str, *, timeout_seconds: float | None = None) -> Vectors:
        """Return the vector of a task, from the cache if possible.

        Raises:
            EmbedderError: from the embedder.
        """
        if (known := self.find(embedder.model_id, task)) is not None:
            return known
        return self.make(embedder, task, timeout_seconds=timeout_seconds)

    def make(self, embedder: Embedder, task: str, *, timeout_seconds: float | None = None) -> Vectors:
        """Embed a task and cache its vector.

        Raises:
            EmbedderError: from the embedder.
        """
        vector: Vectors = embed_composites(
            embedder, [[task]], max_parts=MAX_TASK_PARTS, timeout_seconds=timeout_seconds
        )[0]
        with self._lock:
            self._vectors[_get_key(embedder.model_id, task)] = vector
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)
        return vector

    def clear(self) -> None:
        with self._lock:
            self._vectors.clear()


def _get_key(model_id: str, task: str) -> tuple[str, bytes]:
    return model_id, hashlib.sha256(task.encode("utf-8", "replace")).digest()


task_vectors = TaskVectorCache()
