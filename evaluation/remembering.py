"""Embed each text once in an evaluation: the same requests are asked of every arm, the same lessons learnt per seed."""

from collections.abc import Sequence

import numpy as np

from memory.embeddings.base import Embedder, Vectors
from memory.embeddings.registry import get_embedder


class RememberedVectors:
    """Stands before an embedder's `embed` and asks it only for texts it has not seen.

    Each text is embedded alone: an int8 model's vectors depend a little on what shares their batch, and a vector that
    is remembered must not depend on who asked first.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embed = embedder.embed
        self._known: dict[str, Vectors] = {}

    def __call__(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        for text in texts:
            if text not in self._known:
                self._known[text] = self._embed([text])[0]
        return np.stack([self._known[text] for text in texts])


def remember_vectors() -> Embedder | None:
    """Make this process's embedder remember, once; return it, or None where there is none."""
    embedder = get_embedder()
    if embedder is not None and not isinstance(embedder.embed, RememberedVectors):
        setattr(embedder, "embed", RememberedVectors(embedder))  # noqa: B010 - of this object, in this process
    return embedder
