"""The database allows the status changes that the services make, and no others (reliability C11)."""

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from memory.curation.decisions import retire_heuristic
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from tests.factories import approve_as_read, make_heuristic, make_project

pytestmark = pytest.mark.django_db

BY = Actor(label="user:ana")
REFUSED = "does not move from"
DISAGREES = "a revision"
HEURISTIC_MOVES = {
    "proposed": {"approved", "rejected", "retired", "quarantined", "superseded"},
    "approved": {"proposed", "retired", "quarantined", "superseded"},
    "rejected": {"proposed", "quarantined"},  # quarantined, here and below: a release still gave it
    "retired": {"proposed", "approved", "quarantined"},  # approved, here and below: undone
    "quarantined": {"proposed", "approved"},
    "superseded": {"proposed", "approved", "quarantined"},
}
TABLES = [("memory_heuristic", HEURISTIC_MOVES)]


@pytest.fixture
def rows() -> None:
    """One lesson, to be moved about."""
    make_heuristic()


def is_moved(table: str, old: str, new: str, *, before: str = "") -> bool:
    """Put the row of a table somewhere unseen, ask the database to move it on, and take all of it back."""
    with transaction.atomic(), connection.cursor() as cursor:
        try:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(f"UPDATE {table} SET status = %s", [old])  # noqa: S608 - our own names
            cursor.execute("SET LOCAL session_replication_role = origin")
            cursor.execute(before or "SELECT")
            with transaction.atomic():
                cursor.execute(f"UPDATE {table} SET status = %s", [new])  # noqa: S608 - our own names
            return True
        except IntegrityError as error:
            if REFUSED not in str(error):
                raise
            return False
        finally:
            transaction.set_rollback(True)


def commit(statement: str, *parameters: Any) -> None:
    """Run a statement and what the database looks at when it is committed."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def moves_of(table: str, places: Mapping[str, Any], *, before: str = "") -> dict[str, set[str]]:
    """Ask the database for each pair of places whether a row may move between them."""
    moves: dict[str, set[str]] = {place: set() for place in places}
    for old, new in permutations(places, 2):
        if is_moved(table, old, new, before=before):
            moves[old].add(new)
    return moves


@pytest.mark.parametrize(("table", "allowed"), TABLES)
def test_database_knows_the_moves_of_the_services(rows: None, table: str, allowed: Any) -> None:
    assert moves_of(table, allowed) == allowed


@pytest.mark.parametrize(("table", "allowed"), TABLES)
def test_comparison_notices_a_trigger_that_is_gone(rows: None, table: str, allowed: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {table}_move ON {table}")

    assert moves_of(table, allowed) == {place: set(allowed) - {place} for place in allowed}


def test_places_are_those_that_there_are() -> None:
    assert set(HEURISTIC_MOVES) == set(Heuristic.Status.values)


def test_erasure_puts_a_lesson_where_it_was(rows: None) -> None:
    erasing = "SELECT set_config('erl.erasing', 'on', true)"

    assert is_moved("memory_heuristic", "rejected", "superseded", before=erasing)


def test_other_columns_change_where_a_lesson_stays(rows: None) -> None:
    assert Heuristic.objects.update(status="proposed", support=0) == 1


@pytest.mark.parametrize(
    ("start", "statement"),
    [
        ("proposed", "UPDATE memory_heuristic SET status = 'approved'"),
        ("approved", "UPDATE memory_heuristicrevision SET served = false"),
        ("approved", "UPDATE memory_heuristic SET status = 'retired'"),
        ("approved", "UPDATE memory_heuristic SET status = 'quarantined'"),
    ],
)
def test_status_and_service_agree_at_the_commit(start: str, statement: str) -> None:
    make_heuristic(status=start)

    with pytest.raises(IntegrityError, match=DISAGREES):
        commit(statement)


def test_lesson_cannot_be_born_approved() -> None:
    project = make_project()

    with pytest.raises(IntegrityError, match=DISAGREES):
        commit(
            "INSERT INTO memory_heuristic (id, project_id, status, support, approved_support, created_at, updated_at, "
            "reflector, reflector_version, model, prompt_version, client, usefulness, usefulness_basis, "
            "usefulness_version, review_priority, review_basis, risk_flags, external_id, metadata) "
            "VALUES (gen_random_uuid(), %s, 'approved', 0, 0, now(), now(), '', '', '', '', '', 0.5, '{}', '', 0, "
            "'{}', '{}', '', '{}')",
            project.pk,
        )


def test_withdrawn_wording_cannot_be_served_again_behind_the_lesson() -> None:
    retire_heuristic(approve_as_read(make_heuristic(), by=BY), by=BY)

    with pytest.raises(IntegrityError, match=DISAGREES):
        commit("UPDATE memory_heuristicrevision SET served = true")
