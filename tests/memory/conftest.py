"""What most tests of the memory start from: a project, and who is at the review desk."""

import pytest
from django.test import Client

from memory.models import Project
from tests.factories import make_member, make_project


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def reviewer(client: Client) -> Client:
    client.force_login(make_member("ana"))
    return client
