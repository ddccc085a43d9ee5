"""Events of an installation that exists are partitioned with its roles, and months come and go while events arrive."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from agents.streaming.events import _APPEND
from erl_site.embedded import postgres
from erl_site.embedded.roles import APPLICATION, OWNER
from tests.stack import migrated_home

ROOT = Path(__file__).resolve().parents[2]
ROWS = b"SELECT run_id, seq, kind, payload, created_at, project_id FROM agents_event ORDER BY run_id, seq"
TWO_RUNS = (
    "from tests.agents.running import make_agent, make_run; agent = make_agent(); make_run(agent), make_run(agent)"
)
SEASONS = 10

pytestmark = pytest.mark.slow


def manage(home: Path, *arguments: str) -> None:
    environment = os.environ | {"ERL_HOME": str(home), "ERL_RETRIEVE_MEMORY_MB": "0"}
    environment.pop("DATABASE_URL", None)
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def connect(home: Path, user: str) -> psycopg.Connection[Any]:
    socket = str(postgres.socket_dir(home / "postgres"))
    return psycopg.connect(host=socket, port=postgres.PORT, user=user, dbname="erl", autocommit=True)


@pytest.fixture(scope="module")
def old_rows(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[tuple[Path, list[Any]]]:
    """A home that was taken back to the last release, got events there, and was migrated again; and these events."""
    home = migrated_home(tmp_path_factory.mktemp("months"))
    try:
        manage(home, "migrate", "agents", "0004_lessons_of_changes")
        manage(home, "shell", "-c", TWO_RUNS)
        with connect(home, APPLICATION) as application:
            rows = application.execute(ROWS).fetchall()
        manage(home, "migrate", "agents")
        yield home, rows
    finally:
        postgres.discard(home / "postgres")


@pytest.fixture
def application(old_rows: tuple[Path, list[Any]]) -> Iterator[psycopg.Connection[Any]]:
    with connect(old_rows[0], APPLICATION) as connected:
        yield connected


@pytest.fixture
def owner(old_rows: tuple[Path, list[Any]]) -> Iterator[psycopg.Connection[Any]]:
    with connect(old_rows[0], OWNER) as connected:
        yield connected


def append(application: psycopg.Connection[Any], run_id: UUID) -> int:
    row = application.execute(_APPEND.encode(), [run_id, run_id, "text", "{}", str(run_id)]).fetchone()
    assert row is not None
    return int(row[0])


def test_events_of_the_last_release_are_kept(
    old_rows: tuple[Path, list[Any]], application: psycopg.Connection[Any]
) -> None:
    rows = old_rows[1]

    assert len(rows) >= 2
    assert [row for row in application.execute(ROWS).fetchall() if row in rows] == rows


def test_application_writes_the_table_and_not_its_partitions(application: psycopg.Connection[Any]) -> None:
    ((run_id, part),) = application.execute("SELECT run_id, tableoid::regclass::text FROM agents_event LIMIT 1")

    append(application, run_id)

    with pytest.raises(errors.InsufficientPrivilege):
        application.execute(f"SELECT FROM {part}".encode())
    with pytest.raises(errors.InsufficientPrivilege):
        application.execute("SELECT agents_drop_event_months(0)")


def test_months_come_and_go_while_events_arrive(
    owner: psycopg.Connection[Any], application: psycopg.Connection[Any]
) -> None:
    ((run_id, before),) = application.execute("SELECT id, events_written FROM agents_run ORDER BY id DESC LIMIT 1")
    stop, written = Event(), []

    def write() -> None:
        while not stop.is_set():
            written.append(append(application, run_id))

    writer = Thread(target=write)
    writer.start()
    dropped = [keep(owner) for _ in range(SEASONS)]
    stop.set()
    writer.join()

    assert [len(each) for each in dropped] == [1] * SEASONS
    assert written == [*range(before + 1, before + 1 + len(written))]
    assert owner.execute("SELECT max(seq) FROM agents_event WHERE run_id = %s", [run_id]).fetchone() == (written[-1],)


def keep(owner: psycopg.Connection[Any]) -> list[Any]:
    """Drop the next months, which have no events, and make them again; try again where a writer was in the way."""
    dropped = until_free(owner, "SELECT agents_drop_event_months(-100)")
    until_free(owner, "SELECT agents_make_event_months(2)")
    return dropped


def until_free(owner: psycopg.Connection[Any], statement: str) -> list[Any]:
    while True:
        try:
            return owner.execute(statement.encode()).fetchall()
        except errors.LockNotAvailable:
            continue
