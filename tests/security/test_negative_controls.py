"""Two safeguards taken away, each noticed by the check that is there for it (reliability F25)."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from memory.runs.models import Trajectory
from reflection.jobs.queue import claim
from reflection.reflectors.models import Reflection
from tests.api.hostile import BAD_VALUES, HOSTILE
from tests.factories import make_api_key, make_project, make_reflection, make_trajectory
from tests.waiting import wait_until

PASSES_OVER = "FOR UPDATE SKIP LOCKED"
WAITED, TWICE = "waited for a row that another was taking", "took a row that another had taken"


@contextmanager
def sending(instead: str) -> Iterator[None]:
    """Send `instead` of the words that pass over locked rows, on this thread's connection."""

    def rewrite(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        return execute(sql.replace(PASSES_OVER, instead), *rest)

    with connection.execute_wrapper(rewrite):
        yield


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
            " WHERE NOT l.granted AND a.datname = current_database())"
        )
        return bool(cursor.fetchone()[0])


def find_faults_of_claims(words: str) -> list[str]:
    """Let one worker claim while another is claiming, and say what was wrong with it."""
    project = make_project()
    for _ in range(2):
        make_reflection(trajectory=make_trajectory(project=project))
    taken: list[UUID] = []

    def take() -> None:
        try:
            with sending(words):
                claimed = claim("reflection", owner="second")
            assert claimed is not None
            taken.append(claimed.pk)
        finally:
            connection.close()

    second = threading.Thread(target=take)
    with ExitStack() as held:
        held.enter_context(transaction.atomic())
        held.enter_context(sending(words))
        first = claim("reflection", owner="first")
        assert first is not None
        second.start()
        wait_until(lambda: not second.is_alive() or somebody_waits())
        waited = second.is_alive()
    second.join(timeout=30)
    return [WAITED] * waited + [TWICE] * (first.pk in taken)


@pytest.mark.django_db(transaction=True)
def test_claims_as_they_are_pass_over_what_another_is_taking() -> None:
    assert find_faults_of_claims(PASSES_OVER) == []
    assert set(Reflection.objects.values_list("attempts", flat=True)) == {1}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("words", "faults"), [("FOR UPDATE", [WAITED]), ("", [WAITED, TWICE])])
def test_check_notices_claims_that_do_not_pass_over_locked_rows(words: str, faults: list[str]) -> None:
    assert find_faults_of_claims(words) == faults


def find_accepted(address: str) -> list[str]:
    """Post a body with each bad value; return those that were not refused as what they are, or were stored."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_api_key().token}")
    client.raise_request_exception = False
    accepted = []
    for name in BAD_VALUES:
        response = client.post(address, HOSTILE[name], content_type="application/json")
        code = response.json()["error"]["code"] if response.status_code >= 400 else ""
        if (response.status_code, code) != (400, "invalid_json") or Trajectory.objects.exists():
            accepted.append(name)
            Trajectory.objects.all().delete()
    return accepted


@pytest.mark.django_db
def test_check_notices_json_without_its_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_accepted("/api/v1/trajectories") == []

    monkeypatch.setattr("memory.api.base.read_body", lambda request: json.loads(request.body))  # whatever Python takes

    accepted = find_accepted("/api/v1/trajectories")

    assert {"nul", "lone-high-surrogate", "infinite", "repeated-name", "NaN"} <= set(accepted)
