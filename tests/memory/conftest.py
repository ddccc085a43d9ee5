"""Embedders of the tests of the memory."""

from collections.abc import Iterator

import pytest

from memory.embeddings.registry import forget_embedders
from tests.memory.embedding_service import EmbeddingService


@pytest.fixture
def fresh_embedders() -> Iterator[None]:
    """Load embedders anew in a test, and after it."""
    forget_embedders()
    yield
    forget_embedders()


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    """An embedder over HTTP, on loopback."""
    service = EmbeddingService()
    yield service
    service.stop()
