"""Keys of requests that are still running."""

import hashlib
from typing import Any

import psycopg
import pytest
from django.db import connection
from rest_framework.test import APIClient

from memory.runs.models import Trajectory
from tests.api.problems import read_problem
from tests.api.repeating import BODY, KEY
from tests.product import NewApiKey

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.api.tiny")]


@pytest.fixture
def other_session(api_key: NewApiKey) -> Any:
    """A second connection to the tests' database."""
    settings = connection.settings_dict
    connection.ensure_connection()
    session = psycopg.connect(
        host=settings["HOST"], port=settings["PORT"] or 5432, user=settings["USER"], dbname=settings["NAME"]
    )
    yield session
    session.close()


def test_request_in_flight_is_409_to_retry(
    api_client: APIClient, api_key: NewApiKey, other_session: psycopg.Connection
) -> None:
    scope = f"idempotency\n{api_key.api_key.project_id}\nagent\nrun-1"
    number = int.from_bytes(hashlib.sha256(scope.encode()).digest()[:8], "big", signed=True)
    other_session.execute("SELECT pg_advisory_xact_lock(%s)", [number])

    response = api_client.post("/tiny", BODY, **KEY)

    problem = read_problem(response)
    assert (problem["status"], problem["error"]["code"]) == (409, "idempotency_in_progress")
    assert (problem["error"]["retryable"], response["Retry-After"]) == (True, "1")
    assert not Trajectory.objects.exists()


def test_key_is_free_as_soon_as_its_holder_dies(
    api_client: APIClient, api_key: NewApiKey, other_session: psycopg.Connection
) -> None:
    scope = f"idempotency\n{api_key.api_key.project_id}\nagent\nrun-1"
    number = int.from_bytes(hashlib.sha256(scope.encode()).digest()[:8], "big", signed=True)
    other_session.execute("SELECT pg_advisory_xact_lock(%s)", [number])
    connection.cursor().execute("SELECT pg_terminate_backend(%s, 5000)", [other_session.info.backend_pid])

    assert api_client.post("/tiny", BODY, **KEY).status_code == 201
