"""Vectors of tasks embedded lately. A short task costs 5 ms to embed and a few µs to find here."""

import hashlib
from collections import OrderedDict
from threading import Lock

from memory.embeddings.base import Embedder, Vectors
from memory.embeddings.composite import embed_composites

CAPACITY = 1000  # of 1.5 kB each


class TaskVectorCache:
    """The most recently used vectors by (model id, sha256 of the task); threads may share it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._vectors: OrderedDict[tuple[str, bytes], Vectors] = OrderedDict()

    def embed(self, embedder: Embedder, task: str, *, timeout_seconds: float | None = None) -> Vectors:
        """Return the vector of a task, and ask the embedder only if it is not known.

        Raises:
            EmbedderError: as the embedder does.
        """
        key = (embedder.model_id, hashlib.sha256(task.encode("utf-8", "replace")).digest())
        with self._lock:
            if (known := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
                return known
        vector: Vectors = embed_composites(embedder, [[task]], timeout_seconds=timeout_seconds)[0]
        with self._lock:
            self._vectors[key] = vector
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)
        return vector

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()


task_vectors = TaskVectorCache()
