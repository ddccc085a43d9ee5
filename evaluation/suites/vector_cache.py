"""Embed each text once per evaluation: every arm gets the same requests, and every seed learns the same lessons."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from memory.embeddings.base import Embedder, Vectors, embed_composites
from memory.embeddings.registry import get_embedder

BATCH_SIZE = 512
THREADS = 2  # the model's runtime computes outside the interpreter's lock, one core per call


class CachedVectors:
    """Replaces an embedder's `embed` and calls it only for texts it has not seen.

    Each text is embedded on its own: an int8 model's vectors depend slightly on the rest of the batch, and a cached
    vector must not depend on which caller came first. Inside `in_batches`, texts known in advance are embedded in
    sorted batches, which takes half the time and always gives the same vectors for the same set of texts.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.uncached = embedder.embed
        self._known: dict[str, Vectors] = {}
        self._use_batches = False

    def __call__(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        missing = sorted({text for text in texts if text not in self._known})
        if self._use_batches:
            parts = [missing[start : start + BATCH_SIZE] for start in range(0, len(missing), BATCH_SIZE)]
            with ThreadPoolExecutor(THREADS) as pool:
                embedded = list(pool.map(self.uncached, parts))
        else:
            parts = [[text] for text in missing]
            embedded = [self.uncached(part) for part in parts]
        for part, vectors in zip(parts, embedded, strict=True):
            self._known.update(zip(part, vectors, strict=True))
        return np.stack([self._known[text] for text in texts])

    @contextmanager
    def in_batches(self) -> Iterator[None]:
        """Embed in batches while the context lasts."""
        self._use_batches = True
        try:
            yield
        finally:
            self._use_batches = False


def cache_vectors() -> None:
    """Put a cache in front of this process's embedder, if it has one."""
    embedder = get_embedder()
    if embedder is not None and not isinstance(embedder.embed, CachedVectors):
        setattr(embedder, "embed", CachedVectors(embedder))  # noqa: B010 - replaced on this instance only


def prefetch_vectors(texts: Iterable[str]) -> None:
    """Fill the cache with texts that the product will need soon. Does nothing without a cache."""
    embedder = get_embedder()
    vectors = embedder.embed if embedder else None
    if embedder is not None and isinstance(vectors, CachedVectors):
        with vectors.in_batches():
            embed_composites(embedder, [[text] for text in dict.fromkeys(texts)])
