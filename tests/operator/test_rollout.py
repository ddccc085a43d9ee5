"""A roll-out: the last release goes on working while the database is migrated, and beside what comes after it.

The database begins as the backup of the last release in tests/data/releases, with copies of its rows.
CHAOS_PROFILE=full makes 200,000 of them and prints the longest lock.
"""

import json
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from erl_site.celery import app
from erl_site.embedded import postgres, roles
from reflection.jobs.messages import RUN_JOB
from tests.chaos.profile import pick, report
from tests.erl_site.test_roles import connect
from tests.operator.versions import LAST_RELEASE, Version, unpack_last_release
from tests.real_runs import WEBSHOP, load_runs
from tests.stack import ROOT, kill_workers
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(1200)]

ROWS = pick(20_000, 200_000)
JOBS = 12
PROJECT = "demo"  # of the backup
# The tables that grow without end in a project, and what has to differ in a copy of a row.
LARGE = {
    "memory_trajectory": {"id": "uuidv7()", "external_id": "''", "steps": "'[]'", "stated_step_count": "0"},
    "reflection_job": {
        "id": "uuidv7()",
        "subject": "uuidv7()::text",
        "status": "'done'",
        "finished_at": "now()",
        "lease_until": "NULL",
    },
    "memory_heuristicrevision": {
        "id": "uuidv7()",
        "number": "number + copy * 100",
        "served": "false",
        "withdrawn_at": "now()",
    },
    "memory_passage": {"id": "uuidv7()", "text_sha256": "encode(sha256(uuidv7()::text::bytea), 'hex')"},
    "agents_event": {"seq": "seq + copy * 1000"},
}
# What waits in a migration is what stops requests: a lock that nothing can read beside.
EXCLUSIVE = """
SELECT c.relname, l.virtualtransaction FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
WHERE l.mode = 'AccessExclusiveLock' AND l.granted AND c.relkind IN ('r', 'p') AND c.relname = ANY (%s)
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
# As the next release may make it: a kind and members that neither version knows.
LATER_JOB = """
INSERT INTO reflection_job (id, kind, project_id, subject, payload, result, status, available_at, goes_last, attempts,
    lease_owner, last_error_code, last_error, model, input_tokens, output_tokens, cost_usd, requested_by, request_id,
    traceparent, created_at)
SELECT uuidv7(), 'of_a_later_version', id, 'x', '{"later": true}', '{}', 'queued', now(), false, 0,
    '', '', '', '', 0, 0, 0, '', '', '', now() FROM memory_project LIMIT 1
RETURNING id
"""


@dataclass(kw_only=True)
class Migration:
    """What was seen while the new version migrated under the requests of the old one."""

    seconds: float = 0.0
    statuses: list[int] = field(default_factory=list)
    slowest_seconds: float = 0.0
    locks: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def longest_lock(self) -> tuple[float, str]:
        """Return for how long a table was seen under a lock that stops reading, and which one."""
        return max(((seen[-1] - seen[0], table) for (table, _), seen in self.locks.items()), default=(0.0, ""))


@dataclass(kw_only=True)
class Rollout:
    home: Path
    old: Version
    new: Version
    migration: Migration


def copy_rows(home: Path, rows: int) -> None:
    """Make the large tables large: copies of their rows, without triggers and foreign keys."""
    with connect(home, roles.ADMINISTRATOR) as server:
        server.execute("SET session_replication_role = replica")
        for table, changes in LARGE.items():
            # Lessons are compared with each other, and so many of the same words are not of this world.
            count = rows // 20 if table == "memory_heuristicrevision" else rows
            names = [
                name
                for (name,) in server.execute(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
                    " AND table_schema = 'public' AND is_generated = 'NEVER' AND is_identity = 'NO'",
                    [table],
                )
            ]
            chosen = ", ".join(changes.get(name, f'"{name}"') for name in names)
            listed = ", ".join(f'"{name}"' for name in names)
            server.execute(
                f"INSERT INTO {table} ({listed}) SELECT {chosen} FROM {table},"  # noqa: S608 - constants
                f" generate_series(1, {count} / (SELECT count(*)::int FROM {table})) AS copy"
            )
        server.execute("ANALYZE")


@contextmanager
def asking(version: Version, seen: Migration) -> Iterator[None]:
    """Let a client record runs and ask for lessons meanwhile, one request after the other."""
    ends = threading.Event()
    run = a_run() | {"reflect": False}
    requests = [("trajectories", run), ("retrieve", {"task": run["task"], "task_id": "webshop"})]

    def ask() -> None:
        while not ends.is_set():
            for path, body in requests:
                begin = time.monotonic()
                try:
                    version.call("POST", path, body)
                    seen.statuses.append(200)
                except urllib.error.HTTPError as error:
                    seen.statuses.append(error.code)
                    error.close()
                seen.slowest_seconds = max(seen.slowest_seconds, time.monotonic() - begin)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextmanager
def watching_locks(home: Path, seen: Migration) -> Iterator[None]:
    """Note which tables that were there before are under an exclusive lock, every few milliseconds."""
    ends = threading.Event()

    def watch() -> None:
        with connect(home, roles.ADMINISTRATOR) as server:
            tables = [name for (name,) in server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
            while not ends.is_set():
                for held in server.execute(EXCLUSIVE, [tables]).fetchall():
                    seen.locks.setdefault(held, []).append(time.monotonic())
                time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.fixture(scope="module")
def rollout(tmp_path_factory: pytest.TempPathFactory, broker: str) -> Iterator[Rollout]:
    """Both versions at work on one database and broker, after the new one migrated while the old one was asked."""
    kill_workers()
    home = tmp_path_factory.mktemp("rollout")
    environment = {"ERL_HOME": str(home), "CELERY_BROKER_URL": broker, "ERL_REFLECTOR": "rules"}
    environment |= {"DJANGO_SETTINGS_MODULE": "erl_site.settings", "ERL_RETRIEVE_MEMORY_MB": "64"}
    root = unpack_last_release(home / "code")
    old = Version(home=home / "old", environment=environment, root=root)
    new = Version(home=home / "new", environment=environment, root=ROOT)
    seen = Migration()
    try:
        old.manage("migrate", "--verbosity=0")
        old.manage("restore", str(ROOT / f"tests/data/releases/{LAST_RELEASE}.dump"), "--replace")
        key = ["create_api_key", "--project", PROJECT, "--client", "rollout", "--scope", "all", "--json"]
        old.token = new.token = json.loads(old.manage(*key))["api_key"]
        copy_rows(home, ROWS)
        old.start_web()
        old.start_worker("old", concurrency=1)
        with watching_locks(home, seen), asking(old, seen):
            begin = time.monotonic()
            new.manage("migrate", "--verbosity=0")
            seen.seconds = time.monotonic() - begin
        new.start_web()
        new.start_worker("new", concurrency=1)
        new.start_beat()
        yield Rollout(home=home, old=old, new=new, migration=seen)
    finally:
        old.kill_all()
        new.kill_all()
        postgres.discard(home / "postgres")


@pytest.fixture(params=["old", "new"])
def version(request: pytest.FixtureRequest, rollout: Rollout) -> Version:
    """Each of the two, while the other one runs as well."""
    chosen: Version = getattr(rollout, request.param)
    return chosen


def a_run() -> dict[str, Any]:
    """Return a run that failed, as an agent sends it."""
    run = next(run for run in load_runs(WEBSHOP) if run["outcome"] == "failure")
    return {name: run[name] for name in ("task", "steps", "outcome", "score")} | {
        "task_id": "webshop",
        "agent": "rollout",
    }


def reflect(version: Version, count: int = 1) -> list[str]:
    """Record runs, and queue a reflection on each; return the ids of the reflections."""
    runs = [version.call("POST", "trajectories", a_run() | {"reflect": False})["id"] for _ in range(count)]
    return [version.call("POST", "reflect", {"trajectory_id": run})["id"] for run in runs]


def wait_for(version: Version, reflection: str) -> dict[str, Any]:
    """Return a reflection once it is finished."""

    def find() -> dict[str, Any] | None:
        answer = version.call("GET", f"reflections/{reflection}")
        return answer if answer["finished"] else None

    return wait_until(find, seconds=120, every_seconds=0.2)


def test_requests_are_answered_while_the_database_is_migrated(rollout: Rollout) -> None:
    seen = rollout.migration
    longest, table = seen.longest_lock
    report(
        "upgrade",
        rows_of_each_table=ROWS,
        migration_seconds=round(seen.seconds, 1),
        longest_lock_seconds=round(longest, 3),
        longest_lock_on=table,
        slowest_request_seconds=round(seen.slowest_seconds, 3),
        requests=len(seen.statuses),
    )
    assert set(seen.statuses) == {200}


def test_version_records_and_reflects(version: Version) -> None:
    (reflection,) = reflect(version)

    finished = wait_for(version, reflection)

    assert finished["status"] == "done"
    assert finished["proposals"]


def test_lesson_approved_on_one_version_is_served_by_the_other(version: Version, rollout: Rollout) -> None:
    other = rollout.new if version is rollout.old else rollout.old
    task = f"Move the warehouse of {version.home.name} shoes to Tromsø"
    words = {"trigger": f"{task} in winter", "guideline": "Book the ferry before the lorries.", "polarity": "works"}

    lesson = version.call("POST", "heuristics", words)
    read = other.call("GET", f"heuristics/{lesson['id']}")
    version.call("POST", f"heuristics/{lesson['id']}/approve", {"content_sha256": read["content_sha256"]})

    # Its vector is made by a worker, whichever takes the job.
    def find() -> bool:
        items = other.call("POST", "retrieve", {"task": task, "top_k": 10})["items"]
        return lesson["id"] in [item["id"] for item in items]

    wait_until(find, seconds=60, every_seconds=0.5)


def test_workers_of_both_versions_take_jobs_of_both(rollout: Rollout) -> None:
    queued = [*reflect(rollout.old, JOBS), *reflect(rollout.new, JOBS)]

    statuses = {wait_for(rollout.new, reflection)["status"] for reflection in queued}

    with connect(rollout.home, roles.ADMINISTRATOR) as server:
        owners = server.execute("SELECT lease_owner FROM reflection_job WHERE id = ANY (%s::uuid[])", [queued])
        workers = {owner.partition("@")[0] for (owner,) in owners}
    assert statuses == {"done"}
    assert workers == {"old", "new"}


def test_job_of_a_kind_from_a_later_version_waits(rollout: Rollout) -> None:
    with connect(rollout.home, roles.ADMINISTRATOR) as server:
        (job,) = server.execute(LATER_JOB).fetchall()[0]
    for _ in range(4):  # so that each worker gets one
        app.send_task(RUN_JOB, args=(str(job),), ignore_result=True)

    # Each worker has what came before this behind it.
    statuses = [wait_for(rollout.new, reflection)["status"] for reflection in reflect(rollout.new, 4)]

    with connect(rollout.home, roles.ADMINISTRATOR) as server:
        row = server.execute("SELECT status, attempts FROM reflection_job WHERE id = %s", [job]).fetchone()
    assert statuses == ["done"] * 4
    assert row == ("queued", 0)
