"""The matrix of who may do what, with every request held to its project by the database (reliability D12)."""

from typing import Any

import pytest

from tests.api.conftest import *  # noqa: F403 - the fixtures of the matrix
from tests.contract.test_tenancy import (  # noqa: F401
    test_list_shows_nothing_of_another_project,
    test_operation_on_what_belongs_to_another_project_answers_404_and_changes_nothing,
    test_operation_with_its_scope_alone_succeeds,
)

pytestmark = [pytest.mark.nightly, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def _as_tenant(settings: Any) -> None:
    settings.ERL_TENANT_ROLE = "erl_tenant"
