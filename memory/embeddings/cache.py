"""Vectors of tasks embedded lately: embedding a short task takes 5 ms or more, finding it here a few microseconds."""

import hashlib
from collections import OrderedDict
from threading import Lock

from memory.embeddings.base import Embedder, Vectors
from memory.embeddings.composite import embed_composites

CAPACITY = 1000  # of 1.5 kB each
MAX_TASK_PARTS = 4  # of 500 characters: each further part costs 20 ms and finds no more (docs/retrieval.md)


class TaskVectorCache:
    """The most recently used vectors by (model id, sha256 of the task); threads may share it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._vectors: OrderedDict[tuple[str, bytes], Vectors] = OrderedDict()

    def find(self, model_id: str, task: str) -> Vectors | None:
        """Return the vector of a task if it is in the cache."""
        key = _get_key(model_id, task)
        with self._lock:
            if (known := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
        return known

    def embed(self, embedder: Embedder, task: str, *, timeout_seconds: float | None = None) -> Vectors:
        """Return the vector of a task, and ask the embedder only if it is not in the cache.

        Raises:
            EmbedderError: as the embedder does.
        """
        if (known := self.find(embedder.model_id, task)) is not None:
            return known
        return self.make(embedder, task, timeout_seconds=timeout_seconds)

    def make(self, embedder: Embedder, task: str, *, timeout_seconds: float | None = None) -> Vectors:
        """Embed a task and keep its vector.

        Raises:
            EmbedderError: as the embedder does.
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
