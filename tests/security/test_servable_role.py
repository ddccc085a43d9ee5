"""The retrieval path can read what was approved, and nothing else (reliability C3)."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.retrieval import database_search, snapshot
from memory.retrieval.answers import retrieve
from memory.retrieval.database import ServingRole, read_prepared, serving_role
from memory.retrieval.question import Question
from memory.retrieval.snapshot import Snapshots
from tests.factories import approve_as_read, make_heuristic, make_project, make_trajectory

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
    approved = approve_as_read(make_heuristic(project=project), by=Actor(label="user:ana"))
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


def test_searches_run_as_the_role_by_themselves() -> None:
    assert read_prepared("SELECT current_user", {}) == [("erl_serving",)]
    project = make_project()
    approved = approve_as_read(make_heuristic(project=project), by=Actor(label="user:ana"))
    make_heuristic(project=project)
    embed_heuristics([approved.pk])

    answers = [
        retrieve(Question(project=project, task="Cancel a reservation", mode=mode, by=Actor(label="key:agent")))
        for mode in ("hybrid", "lexical", "embedding")
    ]

    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user = session_user")
        assert cursor.fetchone() == (True,), "the rights of the role outlived the search"
    assert [[item["id"] for item in answer.items] for answer in answers] == [[str(approved.pk)]] * 3


def test_search_that_reads_a_table_is_refused_as_the_role() -> None:
    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        read_prepared("SELECT guideline FROM memory_heuristicrevision", {})


@pytest.mark.django_db(transaction=True)
def test_what_a_process_holds_in_memory_is_read_as_the_role(settings: Any) -> None:
    settings.ERL_RETRIEVE_MEMORY_MB = 64
    project = make_project()
    embed_heuristics([approve_as_read(make_heuristic(project=project), by=Actor(label="user:ana")).pk])
    assert Snapshots().load(project.pk) is not None

    with connection.cursor() as cursor:
        cursor.execute("REVOKE SELECT ON servable_text FROM erl_serving")
    try:
        with pytest.raises(ProgrammingError, match="permission denied"):
            Snapshots().load(project.pk)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("GRANT SELECT ON servable_text TO erl_serving")


def test_without_the_role_searches_have_the_rights_of_the_user() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER ROLE erl_serving RENAME TO erl_serving_of_another")
    serving_role.forget()
    try:
        assert read_prepared("SELECT current_user = session_user", {}) == [(True,)]
    finally:
        serving_role.forget()


@pytest.mark.django_db(transaction=True)
def test_role_that_is_gone_meanwhile_does_not_stop_searches(settings: Any) -> None:
    assert read_prepared("SELECT current_user", {}) == [("erl_serving",)]
    with connection.cursor() as cursor:
        cursor.execute("ALTER ROLE erl_serving RENAME TO erl_serving_of_another")
    try:
        assert read_prepared("SELECT current_user = session_user", {}) == [(True,)]
        settings.ERL_SERVING_ROLE = "erl_serving"  # by name: nothing else will do
        with pytest.raises(OperationalError, match="cannot run as erl_serving"):
            read_prepared("SELECT current_user", {})
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER ROLE erl_serving_of_another RENAME TO erl_serving")
        serving_role.forget()


def test_documented_grants_are_those_of_the_role() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reliability.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"GRANT SELECT ON ([\w,\s]+) TO erl_serving;", page)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm')"
            " AND has_table_privilege('erl_serving', oid, 'SELECT')"
        )
        granted = {name for (name,) in cursor.fetchall()}

    assert set(re.split(r",\s+", documented)) == granted == set(ServingRole.READS)


@pytest.mark.parametrize("module", [database_search, snapshot], ids=lambda module: module.__name__)
def test_statements_of_retrieval_name_no_table_of_texts(module: object) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]

    assert re.findall(rf"\b(?:FROM|JOIN)\s+({'|'.join(BASE_TABLES)})\b", source) == []
    assert re.search(r"\b(?:FROM|JOIN)\s+servable_", source)
