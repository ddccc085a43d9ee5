"""What an embedder is."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors.

    `model_id` names the model and its exact version; vectors of two ids may not be compared. `dimensions` is the
    length of a vector.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        """Return one row of unit length for each text, shape (len(texts), dimensions).

        `timeout_seconds` limits a call that leaves this process; None takes the embedder's own limit.

        Raises:
            EmbedderError: the vectors cannot be made now.
        """
        ...


def scale_to_unit(vectors: Vectors) -> Vectors:
    """Return the rows of `vectors` at length 1; a row of zeros stays one."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    scaled: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return scaled
