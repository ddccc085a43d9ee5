"""Tables of an installation that exists are partitioned with its roles, and months come and go while rows arrive."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from erl_site.embedded import postgres
from erl_site.embedded.roles import APPLICATION, OWNER
from runtime.streaming.events import _APPEND
from tests.stack import migrated_home

ROOT = Path(__file__).resolve().parents[1]
EVENTS = b"SELECT run_id, seq, kind, payload, created_at, project_id FROM agents_event ORDER BY run_id, seq"
ANSWERS = b"SELECT id, project_id, task, items, api_key_id, release_id, created_at FROM memory_retrieval ORDER BY id"
LAST_RELEASE = {"agents": "0004_lessons_of_changes", "memory": "0003_groups"}
ROWS = """
from tests.runtime.running import make_agent, make_run
from tests.factories import make_trajectory
agent = make_agent()
make_run(agent), make_run(agent), make_trajectory(project=agent.project)
"""
# As the last release writes them, without `is_kept`.
ANSWER = b"""
INSERT INTO memory_retrieval (id, project_id, task, task_id, agent, mode, requested_mode, top_k, budget_tokens,
    candidate_count, heuristic_ids, items, considered_ids, considered_scores, subtasks, context_sha256, tokens,
    degraded, duration_ms, client, request_id, created_at)
SELECT uuidv7(), project_id, 'Where is it?', '', '', 'hybrid', '', 1, 1, 0, '{}', '[]', '{}', '{}', '{}', '', 0, '', 0,
    '', '', now() FROM memory_trajectory LIMIT 1
RETURNING id
"""
RUN = b"""
INSERT INTO memory_trajectory SELECT (jsonb_populate_record(t, jsonb_build_object(
    'id', uuidv7(), 'external_id', '', 'retrieval_id', %s::uuid))).* FROM memory_trajectory t LIMIT 1
"""
LOST = b"""
SELECT count(*) FROM memory_trajectory t
WHERE retrieval_id IS NOT NULL AND NOT EXISTS (SELECT FROM memory_retrieval r WHERE r.id = t.retrieval_id)
"""
# All months that exist are past their time, for a process of its own.
DROP_ALL = """
from django.conf import settings
from memory.trust.retention import _DETACHED, _MONTHS, _PAST, _read, delete_old_answers
settings.ERL_RETENTION_DAYS = -100
owner, settings.ERL_DATABASE_OWNER = settings.ERL_DATABASE_OWNER, {}
before = _read(_PAST, [_MONTHS, "2100-01-01"])
delete_old_answers()  # as a role that may not
assert before and _read(_PAST, [_MONTHS, "2100-01-01"]) == before
settings.ERL_DATABASE_OWNER = owner
for _ in range(20):
    delete_old_answers()
    if not _read(_PAST, [_MONTHS, "2100-01-01"]) and not _read(_DETACHED):
        break
"""
SEASONS = 10

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.django_db]


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


@dataclass(frozen=True)
class Migrated:
    """A home that was taken back to the last release, got rows there, and was migrated again; and these rows."""

    home: Path
    events: list[Any]
    answers: list[Any]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[Migrated]:
    home = migrated_home(tmp_path_factory.mktemp("months"))
    try:
        manage(home, "shell", "-c", ROWS)
        manage(home, "migrate", "memory", "0003_groups")
        manage(home, "migrate", "agents", "0004_lessons_of_changes")
        with connect(home, APPLICATION) as application:
            record(application)
            events, answers = (application.execute(kind).fetchall() for kind in (EVENTS, ANSWERS))
        manage(home, "migrate")
        yield Migrated(home, events, answers)
    finally:
        postgres.discard(home / "postgres")


@pytest.fixture
def application(migrated: Migrated) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated.home, APPLICATION) as connected:
        yield connected


@pytest.fixture
def owner(migrated: Migrated) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated.home, OWNER) as connected:
        yield connected


def append(application: psycopg.Connection[Any], run_id: UUID) -> int:
    row = application.execute(_APPEND.encode(), [run_id, run_id, "text", "{}", str(run_id)]).fetchone()
    assert row is not None
    return int(row[0])


def record(application: psycopg.Connection[Any]) -> UUID:
    """Write an answer and a run that was given it."""
    ((answer_id,),) = application.execute(ANSWER).fetchall()
    application.execute(RUN, [answer_id])
    return UUID(str(answer_id))


def test_rows_of_the_last_release_are_kept(migrated: Migrated, application: psycopg.Connection[Any]) -> None:
    assert len(migrated.events) >= 2
    assert len(migrated.answers) == 1
    assert [row for row in application.execute(EVENTS).fetchall() if row in migrated.events] == migrated.events
    assert [row for row in application.execute(ANSWERS).fetchall() if row in migrated.answers] == migrated.answers
    assert application.execute(LOST).fetchall() == [(0,)]


@pytest.mark.parametrize("table", ["agents_event", "memory_retrieval"])
def test_application_writes_the_table_and_not_its_partitions(application: psycopg.Connection[Any], table: str) -> None:
    ((part,),) = application.execute(f"SELECT tableoid::regclass::text FROM {table} LIMIT 1".encode())  # noqa: S608
    assert part.startswith(f"{table}_")

    application.execute(f"SELECT FROM {part}".encode())  # as a backup does
    with pytest.raises(errors.InsufficientPrivilege):
        application.execute(f"DELETE FROM {part}".encode())  # noqa: S608
    with pytest.raises(errors.InsufficientPrivilege):
        application.execute(f"DROP TABLE {part}".encode())
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
    until_free(owner, "SELECT memory_make_months('agents_event', 2)")
    return dropped


def until_free(owner: psycopg.Connection[Any], statement: str) -> list[Any]:
    while True:
        try:
            return owner.execute(statement.encode()).fetchall()
        except errors.LockNotAvailable:
            continue


def test_no_evidence_is_lost_while_months_are_dropped(migrated: Migrated, application: psycopg.Connection[Any]) -> None:
    stop, recorded, refused = Event(), [], []

    def write() -> None:
        while not stop.is_set():
            try:
                recorded.append(record(application))
            except errors.ForeignKeyViolation as error:  # the answer was deleted before the run came
                refused.append(error)

    writer = Thread(target=write)
    writer.start()
    manage(migrated.home, "shell", "-c", DROP_ALL)
    stop.set()
    writer.join()

    parts = application.execute(
        "SELECT tableoid::regclass::text, count(*) FROM memory_retrieval WHERE id = ANY(%s) GROUP BY 1", [recorded]
    ).fetchall()
    assert sum(count for _, count in parts) == len(recorded) > 0
    assert {part for part, _ in parts} == {"memory_retrieval_kept", "memory_retrieval_default"}
    assert application.execute(LOST).fetchall() == [(0,)]
    assert all("does not exist" in str(error) for error in refused)
