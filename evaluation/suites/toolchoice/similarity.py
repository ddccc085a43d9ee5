"""How the agent compares meanings: all-MiniLM-L6-v2 as its makers publish it, whatever the product embeds with.

The agent is the yardstick. With the product's own embedder, which weighs common words less, it would choose better
without any lesson, and every change of that embedder would move the arm that all others are compared with.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from evaluation.suites.embedding_memory import RememberedVectors
from memory.embeddings.base import Vectors
from memory.embeddings.minilm import MiniLM


class _PlainMiniLM(MiniLM):
    model_id = "all-minilm-l6-v2-int8-plain"

    def warm_up(self) -> None:
        """Load the model and let every word count the same."""
        loaded = self._load()
        self._loaded = replace(loaded, weights=np.ones_like(loaded.weights))


class Ears:
    """Vectors of texts, each made once."""

    def __init__(self) -> None:
        model = _PlainMiniLM()
        model.warm_up()
        self._vectors = RememberedVectors(model)

    def __call__(self, text: str) -> Vectors:
        vector: Vectors = self._vectors([text])[0]
        return vector

    def listen_ahead(self, texts: Iterable[str]) -> None:
        """Make the vectors of texts that will come."""
        with self._vectors.together():
            self._vectors(list(texts))
