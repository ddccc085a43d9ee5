"""Answers are partitioned by months, which go while rows arrive."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from erl_site.embedded import postgres
from erl_site.embedded.roles import APPLICATION
from tests.stack import manage, migrated_home

ROWS = """
from tests.factories import make_trajectory
make_trajectory()
"""
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

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.django_db]


def connect(home: Path, user: str) -> psycopg.Connection[Any]:
    socket = str(postgres.socket_dir(home / "postgres"))
    return psycopg.connect(host=socket, port=postgres.PORT, user=user, dbname="erl", autocommit=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[Path]:
    """A migrated home with an answer and a run that was given it."""
    home = migrated_home(tmp_path_factory.mktemp("months"))
    try:
        manage(home, "shell", "-c", ROWS)
        with connect(home, APPLICATION) as application:
            record(application)
        yield home
    finally:
        postgres.discard(home / "postgres")


@pytest.fixture
def application(home: Path) -> Iterator[psycopg.Connection[Any]]:
    with connect(home, APPLICATION) as connected:
        yield connected


def record(application: psycopg.Connection[Any]) -> UUID:
    """Write an answer and a run that was given it."""
    ((answer_id,),) = application.execute(ANSWER).fetchall()
    application.execute(RUN, [answer_id])
    return UUID(str(answer_id))


def test_application_writes_the_table_and_not_its_partitions(application: psycopg.Connection[Any]) -> None:
    ((part,),) = application.execute("SELECT tableoid::regclass::text FROM memory_retrieval LIMIT 1")
    assert part.startswith("memory_retrieval_")

    application.execute(f"SELECT FROM {part}".encode())  # as a backup does
    with pytest.raises(errors.InsufficientPrivilege):
        application.execute(f"DELETE FROM {part}".encode())  # noqa: S608
    with pytest.raises(errors.InsufficientPrivilege):
        application.execute(f"DROP TABLE {part}".encode())


def test_no_evidence_is_lost_while_months_are_dropped(home: Path, application: psycopg.Connection[Any]) -> None:
    stop, recorded, refused = Event(), [], []

    def write() -> None:
        while not stop.is_set():
            try:
                recorded.append(record(application))
            except errors.ForeignKeyViolation as error:  # the answer was deleted before the run came
                refused.append(error)

    writer = Thread(target=write)
    writer.start()
    manage(home, "shell", "-c", DROP_ALL)
    stop.set()
    writer.join()

    parts = application.execute(
        "SELECT tableoid::regclass::text, count(*) FROM memory_retrieval WHERE id = ANY(%s) GROUP BY 1", [recorded]
    ).fetchall()
    assert sum(count for _, count in parts) == len(recorded) > 0
    assert {part for part, _ in parts} == {"memory_retrieval_kept", "memory_retrieval_default"}
    assert application.execute(LOST).fetchall() == [(0,)]
    assert all("does not exist" in str(error) for error in refused)
