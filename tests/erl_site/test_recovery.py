"""Requests while the embedded PostgreSQL is started again."""

import http.client
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from erl_site.embedded.home import locked
from erl_site.embedded.recovery import Recovery
from tests.factories import make_api_key
from tests.stack import Stack, migrated_home
from tests.waiting import wait_until

UNTIL_FREE_SECONDS = 20.0  # without a limit of its own a request waits as long as the server is down


def test_threads_wait_for_one_start() -> None:
    starts: list[int] = []
    recovery = Recovery(lambda: starts.append(1), patience_seconds=10)
    recovery.wait()
    assert starts == [1]


def test_thread_that_comes_late_does_not_wait_again() -> None:
    is_back, starts = threading.Event(), list[int]()

    def start() -> None:
        starts.append(1)
        is_back.wait(5)

    recovery = Recovery(start, patience_seconds=0.2)
    for _ in range(50):  # if each of them waited, the server would be back before the last asks
        with pytest.raises(psycopg.OperationalError, match="is starting"):
            recovery.wait()
    assert starts == [1]
    is_back.set()


def test_start_that_fails_is_an_operational_error() -> None:
    def start() -> None:
        raise psycopg.OperationalError("no server can run here")

    with pytest.raises(psycopg.OperationalError, match="no server can run here"):
        Recovery(start, patience_seconds=10).wait()


@pytest.fixture
def web(django_db_setup: None, place: Path) -> Iterator[Stack]:
    """A web server with the embedded PostgreSQL, which nothing else looks after."""
    home = migrated_home(place)
    stack = Stack(home=home, environment={"ERL_HOME": str(home), "TEST_DATABASE_CONN_MAX_AGE": "600"})
    try:
        stack.start_web()
        yield stack
    finally:
        stack.kill_all()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_request_while_the_server_cannot_start_is_503_and_later_works(web: Stack) -> None:
    unknown = make_api_key().token  # to the database of that home
    home = web.home / "postgres"
    assert ask(web, unknown) == 401
    with locked(home):  # as by a process that starts it, for a long time
        os.kill(int((home / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        wait_until(lambda: ask(web, unknown) == 503, seconds=10)  # a connection outlives its server by a moment
        assert [ask(web, unknown) for _ in range(5)] == [503] * 5
    wait_until(lambda: ask(web, unknown) == 401, seconds=60)


def ask(web: Stack, token: str) -> int:
    """Return the status of a request that needs the database; fail if it waits for longer than it may."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=UNTIL_FREE_SECONDS)
    connection.request("GET", "/api/v1/heuristics", headers={"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    connection.close()
    return status
