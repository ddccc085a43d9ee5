"""The retrieval path can read what was approved, and nothing else (reliability C3)."""

import inspect
import re
from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction

from memory.retrieval import indexed, snapshots, statements
from memory.retrieval.database import read_prepared
from memory.services.embed_heuristics import embed_heuristics
from memory.services.retrieve import retrieve
from memory.services.review_heuristic import approve_heuristic
from memory.values import Actor
from tests.factories import make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.django_db

BASE_TABLES = ("memory_heuristicrevision", "memory_heuristic", "memory_heuristicembedding", "memory_trajectory")
VIEWS = ("servable_heuristic", "servable_text")


def as_serving_role(statement: str) -> list[tuple[object, ...]]:
    """Run a statement with the rights that retrieval needs."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE erl_serving")
        cursor.execute(statement)
        rows = list(cursor.fetchall())
        cursor.execute("RESET ROLE")
        return rows


@pytest.mark.parametrize(
    "table", [*BASE_TABLES, "memory_review", "memory_apikey", "memory_idempotencyrecord", "auth_user"]
)
def test_role_cannot_read_the_tables(table: str) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        as_serving_role(f"SELECT * FROM {table}")  # noqa: S608 - our own names


def test_role_reads_approved_lessons_alone() -> None:
    project = make_project()
    approved = approve_heuristic(make_heuristic(project=project), by=Actor(label="user:ana"))
    waiting = make_heuristic(trajectory=make_trajectory(project=project))
    embed_heuristics([approved.pk, waiting.pk])

    found = {view: as_serving_role(f"SELECT heuristic_id FROM {view}") for view in VIEWS}  # noqa: S608 - our own names
    assert {view: {id for (id,) in rows} for view, rows in found.items()} == {view: {approved.pk} for view in VIEWS}


@pytest.mark.parametrize("status", ["proposed", "rejected", "retired", "quarantined", "superseded"])
def test_statement_without_a_filter_finds_nothing_unapproved(status: str) -> None:
    heuristic = make_heuristic(status=status, served=False)
    embed_heuristics([heuristic.pk])

    assert as_serving_role("SELECT * FROM servable_heuristic") == []
    assert as_serving_role("SELECT * FROM servable_text") == []


def test_role_may_write_nothing() -> None:
    make_heuristic(status="approved")

    with pytest.raises(ProgrammingError, match="permission denied"):
        as_serving_role("UPDATE servable_text SET kind = 'lesson' RETURNING revision_id")


def test_searches_may_run_as_the_role(settings: Any) -> None:
    settings.ERL_SERVING_ROLE = "erl_serving"
    project = make_project()
    approved = approve_heuristic(make_heuristic(project=project), by=Actor(label="user:ana"))
    make_heuristic(project=project)
    embed_heuristics([approved.pk])

    answers = [
        retrieve(project, task="Cancel a reservation", mode=mode, by=Actor(label="key:agent"))
        for mode in ("hybrid", "lexical", "embedding")
    ]

    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user = session_user")
        assert cursor.fetchone() == (True,), "the rights of the role outlived the search"
    assert [[item["id"] for item in answer.items] for answer in answers] == [[str(approved.pk)]] * 3


def test_search_that_reads_a_table_is_refused_as_the_role(settings: Any) -> None:
    settings.ERL_SERVING_ROLE = "erl_serving"

    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        read_prepared("SELECT guideline FROM memory_heuristicrevision", {})


@pytest.mark.parametrize("module", [indexed, snapshots, statements], ids=lambda module: module.__name__)
def test_statements_of_retrieval_name_no_table_of_texts(module: object) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]

    assert re.findall(rf"\b(?:FROM|JOIN)\s+({'|'.join(BASE_TABLES)})\b", source) == []
    assert re.search(r"\b(?:FROM|JOIN)\s+servable_", source)
