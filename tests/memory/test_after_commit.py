"""Work after the commit may fail without failing what was committed."""

import ast
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from memory.after_commit import after_commit
from memory.runs.models import Trajectory
from tests.factories import bearer, make_api_key
from tests.stack import PACKAGES, ROOT

SOURCES = [path for app in PACKAGES for path in (ROOT / app).rglob("*.py")]


@contextmanager
def without_table(name: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {name} RENAME TO away")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE away RENAME TO {name}")


def fail(*args: Any) -> None:
    raise OSError("The disk is full.")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("work", [fail, partial(fail, "first")], ids=["function", "partial"])
def test_failure_is_logged_and_what_comes_after_it_is_done(work: Any, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    with transaction.atomic():
        after_commit(work)
        after_commit(done.append, "second")

    assert done == ["second"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "after_commit_failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_run_is_acknowledged_when_the_work_after_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    client = APIClient(headers=bearer(make_api_key().token))
    mistake = {"mistake_type": "wrong_flight", "correct_decision": "Compare the dates first."}
    body = {"task": "Cancel", "steps": [], "outcome": "failure", "mistake_cards": [mistake]}

    with without_table("memory_embeddingmodel"):
        answer = client.post("/api/v1/trajectories", body, format="json", headers={"Idempotency-Key": "1"})

    assert answer.status_code == 201
    assert Trajectory.objects.count() == 1
    assert "settle_cards" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_work_asked_for_twice_is_done_once_and_not_after_a_rollback() -> None:
    done: list[str] = []

    with transaction.atomic():
        after_commit(done.append, "kept")
        after_commit(done.append, "kept")
        with transaction.atomic():
            after_commit(done.append, "rolled back")
            transaction.set_rollback(True)

    assert done == ["kept"]


def calls_on_commit(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.Attribute | ast.Name) and "on_commit" in ast.unparse(node) for node in ast.walk(tree)
    )


def test_no_other_module_gives_django_work_for_after_the_commit() -> None:
    assert [str(path.relative_to(ROOT)) for path in SOURCES if calls_on_commit(path)] == ["memory/after_commit.py"]
