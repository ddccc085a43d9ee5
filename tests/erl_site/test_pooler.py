"""Requests work behind a transaction pooler and leave no session state (reliability C12)."""

import uuid
from typing import Any

import httpx
import pytest
from django.db import connection

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from tests.erl_site.pooler import CONNECTIONS, Pooler, pooled
from tests.factories import approve_as_read, bearer, make_api_key, make_heuristic, make_project
from tests.servers import HOME
from tests.stack import Stack

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True)]

ROUNDS = 12
# What a session of a client that is gone would find.
_LEFT = """
SELECT 'prepared ' || name FROM pg_prepared_statements
UNION ALL SELECT 'lock ' || locktype FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
UNION ALL SELECT 'setting ' || name FROM pg_settings WHERE source = 'session'
    AND name NOT LIKE 'transaction%' AND name NOT IN
    ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')  -- PgBouncer's care
UNION ALL SELECT 'table ' || relname FROM pg_class WHERE relpersistence = 't'
UNION ALL SELECT 'channel ' || c FROM pg_listening_channels() c
UNION ALL SELECT 'role ' || current_user WHERE current_user <> session_user
UNION ALL SELECT 'project ' || current_setting('erl.project_id', true)
    WHERE coalesce(current_setting('erl.project_id', true), '') <> ''
"""


def ask_for_everything(base_url: str, token: str) -> list[str]:
    """Send the requests of an agent and of a reviewer in turn; return those that were not answered as they should."""
    failed = []
    with httpx.Client(base_url=f"{base_url}/api/v1", headers=bearer(token), timeout=30) as client:

        def send(method: str, path: str, status: int, **options: Any) -> Any:
            answer = client.request(method, path, **options)
            if answer.status_code != status:
                failed.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            return answer

        for number in range(ROUNDS):
            key = {"Idempotency-Key": str(uuid.uuid4())}
            task = {"task": f"Cancel reservation {number}"}
            made = send("POST", "/retrieve", 200, json=task)
            run = {**task, "retrieval_id": made.json().get("retrieval_id"), "outcome": "failure"}
            first = send("POST", "/trajectories", 201, json=run, headers=key)
            again = send("POST", "/trajectories", 201, json=run, headers=key)
            if first.content != again.content:
                failed.append("another answer under the same key")
            lesson = {"trigger": f"Case {number} is asked for", "guideline": "Check the fare class first."}
            proposed = send("POST", "/heuristics", 201, json=lesson)
            read = {"content_sha256": proposed.json().get("content_sha256")}
            send("POST", f"/heuristics/{proposed.json().get('id')}/approve", 200, json=read)
            send("GET", "/heuristics?limit=5", 200)
            send("GET", f"/context?task=Cancel+{number}", 200)
            send("GET", "/memory/summary", 200)
    return failed


def find_what_is_left(pooler: Pooler) -> list[str]:
    """Ask each connection of the pooler for what clients left in it."""
    with pooler.connect() as asking:
        return [row[0] for _ in range(CONNECTIONS) for row in asking.execute(_LEFT).fetchall()]


def use(environment: dict[str, str], *, ignored: str = "") -> tuple[list[str], list[str], int]:
    """Run a web server behind a pooler; return what failed, what was left, and how many transactions there were."""
    project = make_project()
    token = make_api_key(project=project).token
    served = approve_as_read(make_heuristic(project=project), by=Actor(label="user:ana"))
    embed_heuristics([served.pk])
    with pooled(connection.settings_dict, ignored=ignored) as pooler:
        stack = Stack(home=HOME, environment={"DATABASE_URL": pooler.url} | environment)
        try:
            stack.start_web()
            failed = ask_for_everything(stack.base_url, token)
        finally:
            stack.kill_all()
        return failed, find_what_is_left(pooler), pooler.count_transactions()


@pytest.mark.parametrize("role", ["", "erl_tenant"])
def test_requests_work_behind_a_pooler_and_leave_nothing(broker: str, role: str) -> None:
    environment = {"CELERY_BROKER_URL": broker, "ERL_DATABASE_POOLER": "true", "ERL_TENANT_ROLE": role}

    failed, left, transactions = use(environment)

    assert failed == []
    assert left == []
    assert transactions > 10 * ROUNDS
    assert Trajectory.objects.count() == ROUNDS


def test_check_notices_what_a_session_keeps(broker: str) -> None:
    failed, left, _ = use({"CELERY_BROKER_URL": broker, "ERL_DATABASE_POOLER": "false"}, ignored="options")

    assert any(each.startswith("prepared ") for each in left) or failed
