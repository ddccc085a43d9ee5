"""The database goes away, before a request and in the middle of it (reliability A15)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from rest_framework.test import APIClient

from memory.api.models import IdempotencyRecord
from memory.runs.models import Trajectory
from tests.api.problems import read_problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.api.tiny")]

KEY: dict[str, Any] = {"HTTP_IDEMPOTENCY_KEY": "run-1"}


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Call it and the database cannot be reached any more; `outage.end()` brings it back."""

    class Outage:
        def begin(self) -> None:
            connection.close()
            monkeypatch.setitem(connection.settings_dict, "NAME", "no_such_database")

        def end(self) -> None:
            monkeypatch.undo()
            connection.close()

    outage = Outage()
    yield outage
    outage.end()


def cut_at(statement: str) -> Any:
    """End our database session as an administrator does, when the first such statement is about to run."""
    cut: list[str] = []

    def execute(proceed: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(statement) and not cut:
            cut.append(sql)
            settings = connection.settings_dict
            own = connection.connection.info.backend_pid
            with psycopg.connect(
                host=settings["HOST"], port=settings["PORT"] or 5432, user=settings["USER"], dbname=settings["NAME"]
            ) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [own])
        return proceed(sql, params, many, context)

    return connection.execute_wrapper(execute)


@pytest.mark.parametrize("method", ["get", "post"])
def test_request_without_database_is_503_with_a_time_to_come_back(
    api_client: APIClient, outage: Any, method: str
) -> None:
    outage.begin()
    response = getattr(api_client, method)("/tiny", {} if method == "get" else {"task": "x"})

    problem = read_problem(response)
    assert (problem["status"], problem["error"]["code"]) == (503, "database_unavailable")
    assert (problem["error"]["retryable"], response["Retry-After"]) == (True, "5")


def test_database_that_only_reads_is_503_with_a_time_to_come_back(api_client: APIClient) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")  # as on a standby
    response = api_client.post("/tiny", {"task": "x"}, **KEY)
    connection.close()

    problem = read_problem(response)
    assert (problem["status"], problem["error"]["code"]) == (503, "database_unavailable")
    assert (problem["error"]["retryable"], response["Retry-After"]) == (True, "5")


def test_key_verified_a_moment_ago_does_not_hide_the_outage(api_client: APIClient, outage: Any) -> None:
    api_client.get("/tiny")
    outage.begin()

    assert read_problem(api_client.get("/tiny"))["status"] == 503


def test_service_is_back_with_the_database(api_client: APIClient, outage: Any) -> None:
    outage.begin()
    during = api_client.post("/tiny", {"task": "x"}, **KEY).status_code
    outage.end()

    assert (during, api_client.post("/tiny", {"task": "x"}, **KEY).status_code) == (503, 201)


@pytest.mark.parametrize("statement", ['INSERT INTO "memory_trajectory"', 'INSERT INTO "memory_idempotencyrecord"'])
def test_session_cut_in_the_middle_is_503_and_the_retry_has_one_effect(api_client: APIClient, statement: str) -> None:
    with cut_at(statement):
        first = api_client.post("/tiny", {"task": "x"}, **KEY)
    left = (Trajectory.objects.count(), IdempotencyRecord.objects.count())

    second = api_client.post("/tiny", {"task": "x"}, **KEY)

    assert read_problem(first)["error"]["code"] == "database_unavailable"
    assert left == (0, 0)
    assert (second.status_code, Trajectory.objects.count()) == (201, 1)


def deadlock_at(statement: str, *, times: int) -> Any:
    """Let such statements fail as PostgreSQL lets one of two fail that wait for each other."""
    left = [None] * times

    def execute(proceed: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(statement) and left:
            left.pop()
            return proceed("DO $$ BEGIN RAISE deadlock_detected; END $$", None, False, context)
        return proceed(sql, params, many, context)

    return connection.execute_wrapper(execute)


@pytest.mark.parametrize("key", [{}, KEY])
def test_request_that_deadlocks_is_tried_again(api_client: APIClient, key: dict[str, Any]) -> None:
    with deadlock_at('INSERT INTO "memory_trajectory"', times=2):
        answer = api_client.post("/tiny", {"task": "a task"}, format="json", **key)

    assert answer.status_code == 201
    assert Trajectory.objects.count() == 1


def test_request_that_deadlocks_every_time_is_a_conflict_and_leaves_nothing(api_client: APIClient) -> None:
    with deadlock_at('INSERT INTO "memory_trajectory"', times=3):
        answer = api_client.post("/tiny", {"task": "a task"}, format="json", **KEY)

    assert read_problem(answer)["error"]["code"] == "conflict"
    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "1")
    assert not Trajectory.objects.exists()
    assert not IdempotencyRecord.objects.exists()
