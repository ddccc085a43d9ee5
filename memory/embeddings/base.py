"""The interface of embedders."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors.

    `model_id` names the model and its exact version; vectors of different ids must not be compared. `dimensions` is
    the length of a vector.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions).

        `timeout_seconds` limits a call to a service; None means the embedder's own limit.

        Raises:
            EmbedderError: the vectors cannot be computed now.
        """
        ...


def scale_to_unit(vectors: Vectors) -> Vectors:
    """Scale the rows of `vectors` to length 1; rows of zeros stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    scaled: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return scaled
