"""Vectors of texts embedded lately. A query costs 5 ms to embed and 2 µs to find here."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import numpy as np

from memory.embeddings.base import Embedder, Vectors

CAPACITY = 1000  # of 1.5 kB each


class VectorCache:
    """The most recently used vectors by (model id, sha256 of the text); threads may share it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._vectors: OrderedDict[tuple[str, bytes], Vectors] = OrderedDict()

    def embed(self, embedder: Embedder, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        """Return the vectors of `texts` and ask the embedder only for those not known.

        Raises:
            EmbedderError: as the embedder does.
        """
        keys = [(embedder.model_id, hashlib.sha256(text.encode("utf-8", "replace")).digest()) for text in texts]
        with self._lock:
            found = {key: self._vectors[key] for key in keys if key in self._vectors}
            for key in found:
                self._vectors.move_to_end(key)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            made = embedder.embed(list(missing.values()), timeout_seconds=timeout_seconds)
            found |= dict(zip(missing, made, strict=True))
            with self._lock:
                self._vectors |= {key: found[key] for key in missing}
                while len(self._vectors) > self._capacity:
                    self._vectors.popitem(last=False)
        return np.stack([found[key] for key in keys])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()


query_vectors = VectorCache()
