"""What most tests of the memory start from: a project, and who is at the review desk."""

from collections.abc import Iterator

import pytest
from django.test import Client

from memory.embeddings.registry import forget_embedders
from memory.projects.models import Project
from tests.factories import make_member, make_project
from tests.memory.embedding_service import EmbeddingService


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def reviewer(client: Client) -> Client:
    client.force_login(make_member("ana"))
    return client


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
