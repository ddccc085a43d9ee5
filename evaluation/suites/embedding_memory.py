"""Embed each text once in an evaluation: the same requests are asked of every arm, the same lessons learnt per seed."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from memory.embeddings.base import Embedder, Vectors
from memory.embeddings.composite import embed_composites
from memory.embeddings.registry import get_embedder

AT_ONCE = 512
THREADS = 2  # the model's runtime computes outside the interpreter's lock, one core for each call


class RememberedVectors:
    """Stands before an embedder's `embed` and asks it only for texts it has not seen.

    Each text is embedded alone: an int8 model's vectors depend a little on what shares their batch, and a vector that
    is remembered must not depend on who asked first. Known texts are made `together`, in an order of their own, which
    takes half the time and gives the same vectors whenever the same texts are made.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.anew = embedder.embed
        self._known: dict[str, Vectors] = {}
        self._is_together = False

    def __call__(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        missing = sorted({text for text in texts if text not in self._known})
        if self._is_together:
            parts = [missing[start : start + AT_ONCE] for start in range(0, len(missing), AT_ONCE)]
            with ThreadPoolExecutor(THREADS) as pool:
                made = list(pool.map(self.anew, parts))
        else:
            parts = [[text] for text in missing]
            made = [self.anew(part) for part in parts]
        for part, vectors in zip(parts, made, strict=True):
            self._known.update(zip(part, vectors, strict=True))
        return np.stack([self._known[text] for text in texts])

    @contextmanager
    def together(self) -> Iterator[None]:
        """Embed what is asked for inside in batches."""
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False


def remember_vectors() -> Embedder | None:
    """Make this process's embedder remember, once; return it, or None where there is none."""
    embedder = get_embedder()
    if embedder is not None and not isinstance(embedder.embed, RememberedVectors):
        setattr(embedder, "embed", RememberedVectors(embedder))  # noqa: B010 - of this object, in this process
    return embedder


def embed_ahead(texts: Iterable[str]) -> None:
    """Make the vectors of texts that the product is going to ask for, where this process remembers them."""
    embedder = get_embedder()
    vectors = embedder.embed if embedder else None
    if embedder is not None and isinstance(vectors, RememberedVectors):
        with vectors.together():
            embed_composites(embedder, [[text] for text in dict.fromkeys(texts)])


def time_embedding(texts: Sequence[str]) -> list[float]:
    """Return in milliseconds how long each text takes by itself, though its vector may be remembered."""
    embedder = get_embedder()
    if embedder is None:
        return []
    embed = embedder.embed.anew if isinstance(embedder.embed, RememberedVectors) else embedder.embed
    spent = []
    for text in texts:
        started = time.perf_counter()
        embed([text])
        spent.append((time.perf_counter() - started) * 1000)
    return spent
