"""What API tests share: a project, a key with every scope, and a client that sends it."""

import pytest
from rest_framework.test import APIClient

from memory.api.authentication import verified_keys
from memory.projects.api_keys import NewApiKey
from memory.projects.models import Project
from tests.factories import make_api_key, make_project


@pytest.fixture(autouse=True)
def _forget_verified_keys() -> None:
    verified_keys.clear()


@pytest.fixture
def project(db: None) -> Project:
    return make_project()


@pytest.fixture
def api_key(project: Project) -> NewApiKey:
    """`.api_key` is the row, `.token` what goes into the header."""
    return make_api_key(project=project)


@pytest.fixture
def api_client(api_key: NewApiKey) -> APIClient:
    """A client with every scope; answers 500 instead of raising, as a server would."""
    return make_client(api_key.token)


@pytest.fixture
def other_client(db: None) -> APIClient:
    """A client of another project, with every scope there."""
    return make_client(make_api_key().token)


@pytest.fixture
def anonymous_client() -> APIClient:
    return make_client("")


def make_client(token: str) -> APIClient:
    client = APIClient(raise_request_exception=False)
    if token:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client
