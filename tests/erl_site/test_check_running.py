"""`manage.py check --running` finds problems and says how to fix them."""

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from erl_site.diagnosis.database import DatabaseStatus
from erl_site.diagnosis.running import check_sandbox, diagnose
from erl_site.web import health
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import ApiKey
from reflection.jobs.models import WorkerHeartbeat
from reflection.llm.base import ProviderError
from reflection.llm.breaker import FAILURES, note_failure
from runtime.sandbox import workers
from tests.factories import make_api_key, make_heuristic, make_project, make_reflection

pytestmark = pytest.mark.django_db


def found(name: str) -> dict[DatabaseStatus, str]:
    return {each.status: each.message for each in diagnose() if each.name == name}


def break_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'memory_trajectory_tags'::regclass")


def forget_migration() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'evaluation'")


def open_circuit() -> None:
    for _ in range(FAILURES):
        note_failure("openai", ProviderError("down", transient=True, code="timeout"))


def make_lessons_in_chinese() -> None:
    lesson = make_heuristic(
        project=make_project(name="Shop"), status="approved", trigger="顾客要退款", guideline="先核对订单。"
    )
    embed_heuristics([lesson.pk])


def let_wait(minutes: int) -> None:
    make_reflection(available_at=timezone.now() - timedelta(minutes=minutes))


def take_a_right_from_the_serving_role() -> None:
    with connection.cursor() as cursor:
        cursor.execute("REVOKE SELECT ON servable_text FROM erl_serving")


def give_the_serving_role_more() -> None:
    with connection.cursor() as cursor:
        cursor.execute("GRANT SELECT ON memory_trajectory TO erl_serving")


FAULTS: dict[str, tuple[Callable[[], Any], DatabaseStatus, str]] = {
    "indexes": (break_index, DatabaseStatus.FAILURE, "memory_trajectory_tags"),
    "migrations": (forget_migration, DatabaseStatus.FAILURE, "not applied"),
    "keys": (
        lambda: make_api_key(expires_at=timezone.now() + timedelta(days=3), client="soon"),
        DatabaseStatus.WARNING,
        "soon (",
    ),
    "languages": (make_lessons_in_chinese, DatabaseStatus.WARNING, "100% of the lessons of Shop are in Chinese"),
    "unused keys": (
        lambda: ApiKey.objects.filter(pk=make_api_key(client="old").api_key.pk).update(
            created_at=timezone.now() - timedelta(days=100)
        ),
        DatabaseStatus.WARNING,
        "90 days",
    ),
    "queue": (lambda: let_wait(20), DatabaseStatus.FAILURE, "due for 120"),
    "workers": (lambda: let_wait(1), DatabaseStatus.FAILURE, "No worker"),
    "providers": (open_circuit, DatabaseStatus.WARNING, "openai failed 5 times"),
    "dead reflections": (
        lambda: make_reflection(status="dead", finished_at=timezone.now()),
        DatabaseStatus.WARNING,
        "1 reflection failed for good",
    ),
}


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (take_a_right_from_the_serving_role, DatabaseStatus.FAILURE, "cannot read all tables that searches need"),
        (give_the_serving_role_more, DatabaseStatus.WARNING, "can read more"),
    ],
)
def test_serving_role_with_other_rights_is_found(change: Callable[[], Any], status: DatabaseStatus, says: str) -> None:
    assert "Searches run as erl_serving" in found("serving role")[DatabaseStatus.OK]
    change()

    assert says in found("serving role")[status]


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_fault_is_found(name: str) -> None:
    make, status, told = FAULTS[name]
    make()

    assert told in found(name)[status]


def test_sandbox_that_cannot_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    works = next(check_sandbox())
    monkeypatch.setattr(workers, "_was_forked", True)  # as in a process forked from one that had run tools
    fails = next(check_sandbox())

    assert (works.status, works.message) == (DatabaseStatus.OK, "Tools run in monty, without system calls.")
    assert (fails.status, fails.name) == (DatabaseStatus.FAILURE, "sandbox")
    assert "This process was forked" in fails.message


def test_disposable_server_is_reported() -> None:
    assert "fsync" in found("durability")[DatabaseStatus.FAILURE]


def test_missing_broker_is_a_warning(settings: Any) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    health.broker.succeeds()

    assert DatabaseStatus.WARNING in found("broker")


@pytest.mark.parametrize(
    ("role", "status"),
    [("", DatabaseStatus.OK), ("erl_tenant", DatabaseStatus.OK), ("erl_nobody", DatabaseStatus.FAILURE)],
)
def test_tenant_role_must_exist(settings: Any, role: str, status: DatabaseStatus) -> None:
    settings.ERL_TENANT_ROLE = role

    assert status in found("tenant role")


@pytest.mark.parametrize(
    ("provider", "status", "said"),
    [
        ("", DatabaseStatus.OK, "None is configured"),
        (
            "ollama",
            DatabaseStatus.OK,
            "ollama at http://localhost:11434/v1, the one model that the server has. Retrieval uses",
        ),
        ("openai", DatabaseStatus.FAILURE, "ERL_LLM_MODEL is empty"),
    ],
)
def test_model_that_is_configured_is_named(settings: Any, provider: str, status: DatabaseStatus, said: str) -> None:
    settings.ERL_LLM_PROVIDER = provider

    assert said in found("language model")[status]


def test_running_workers_are_counted() -> None:
    WorkerHeartbeat.objects.create(name="w@1/1")

    assert found("workers") == {DatabaseStatus.OK: "1 worker running."}


def test_command_prints_json_and_exits_1() -> None:
    output = StringIO()
    break_index()

    with pytest.raises(CommandError) as raised:
        call_command("check", "--running", "--json", stdout=output)

    findings = json.loads(output.getvalue())["findings"]
    assert raised.value.returncode == 1
    assert all(each["todo"] for each in findings if each["status"] != "ok")
