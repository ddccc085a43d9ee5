"""PostgreSQL that dies, loses its clients, freezes and is full, while requests run (reliability A1, A15; F8)."""

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from pytest_django.plugin import DjangoDbBlocker

from tests.chaos.database import OwnDatabase, own_database
from tests.chaos.load import Load, posting
from tests.chaos.profile import FULL, History, pick, report
from tests.chaos.web import RIGHT, ChaosWeb, post
from tests.factories import make_api_key
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

TIMES = pick(2, 20, full=6)
MOST_SECONDS = pick(50, 90, full=40)  # of each fault; then the times it was met are the result
PAUSE_SECONDS = pick(1, 3)
REFUSED = 10  # answers to have met before there are connections again
UNSAFE = ("synchronous_commit = off", "wal_writer_delay = '10s'")


def take_connections(database: OwnDatabase, load: Load) -> None:
    enough = load.not_recorded + REFUSED
    database.take_every_connection(until=lambda: load.not_recorded >= enough)


BREAKAGES: dict[str, Callable[[OwnDatabase, Load], object]] = {
    "restarted": lambda database, _: database.restart_at_once(),
    "backends_ended": lambda database, _: database.end_backends(),
    "backend_killed": lambda database, _: database.kill_backend(),
    "paused": lambda database, _: database.pause(PAUSE_SECONDS),
    "connections_taken": take_connections,
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A web server on a database of its own, and a key to it."""

    database: OwnDatabase
    web: ChaosWeb
    token: str

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.web.base_url}/ready", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:  # HTTPError, of 503, is one
            return False


@pytest.fixture(scope="module")
def place(
    broker: str, django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with django_db_blocker.unblock():
        token = make_api_key().token  # goes into the copy; the first test empties the original
        with own_database() as database:
            connection.close()
            with web_on(database, tmp_path_factory.mktemp("web")) as web:
                yield Place(database=database, web=web, token=token)


@contextmanager
def web_on(database: OwnDatabase, home: Path) -> Iterator[ChaosWeb]:
    environment = {
        "DATABASE_URL": database.url,
        "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
        "TEST_DATABASE_CONN_MAX_AGE": "600",
        "ERL_LOG_LEVEL": "ERROR",
    }
    web = ChaosWeb(home=home, environment=environment)
    try:
        web.start_web()
        yield web
    finally:
        web.kill_all()


def test_acknowledged_rows_outlive_what_happens_to_the_database(place: Place) -> None:
    database = place.database
    history = History(name="F8")
    load = Load(port=place.web.port, token=place.token, history=history)
    ready_seconds: dict[str, float] = {}
    times: dict[str, int] = {}
    met: dict[str, int] = {}
    with posting(load):
        for name, breaks in BREAKAGES.items():
            before, end = load.not_recorded, time.monotonic() + MOST_SECONDS
            for _ in range(TIMES):
                if time.monotonic() > end:
                    break
                times[name] = times.get(name, 0) + 1
                load.wait_for_each_client()  # else one request could meet two faults
                breaks(database, load)
                over_at = time.monotonic()
                wait_until(place.is_ready, seconds=60)
                ready_seconds[name] = max(ready_seconds.get(name, 0), time.monotonic() - over_at)
            met[name] = load.not_recorded - before
    verdict = history.judge(task for task in database.tasks() if task.startswith("run-"))
    report(
        "F8",
        times=times,
        **verdict.counts(),
        failed=len(load.failed),
        statuses=dict(sorted(load.statuses.items())),
        refused_by_fault=met,
        hangs=load.hangs,
        slowest_seconds=load.slowest_seconds,
        ready_seconds={name: round(seconds, 2) for name, seconds in ready_seconds.items()},
    )
    assert set(database.settings("fsync", "synchronous_commit", "full_page_writes").values()) == {"on"}
    assert verdict.is_sound
    assert verdict.acknowledged == verdict.attempted
    assert load.failed == []
    assert set(load.statuses) <= {"201", "409", "503"}, "a fault of the database is a 503 and nothing else"
    assert min(met["restarted"], met["connections_taken"]) > 0, "nobody met the faults"
    assert not FULL or load.hangs == 0


def test_check_notices_rows_of_a_database_that_does_not_wait_for_the_disk(place: Place) -> None:
    database, history = place.database, History(name="F25")
    database.change_settings(*(f"SET {each}" for each in UNSAFE))
    try:
        for number in range(10):
            history.attempt(key := f"unsafe-{number}")
            if post(place.web.port, RIGHT, token=place.token, key=key, timeout_seconds=30).status == 201:
                history.acknowledge(key)
        database.restart_at_once()

        verdict = history.judge(task for task in database.tasks() if task.startswith("unsafe-"))
    finally:
        database.change_settings(*(f"RESET {each.split()[0]}" for each in UNSAFE))

    assert verdict.acknowledged > 0
    assert verdict.lost
