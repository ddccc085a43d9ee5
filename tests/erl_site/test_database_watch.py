"""Requests do not wait for a frozen database (reliability C4)."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import DatabaseError, connection

from erl_site.monitoring.database_watch import DatabaseWatch, watch_database
from memory.api.errors import ErrorCode
from memory.api.exception_handler import find_refusal
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT_SECONDS = 0.3


@pytest.fixture
def watch() -> Iterator[DatabaseWatch]:
    watch = DatabaseWatch(limit_seconds=LIMIT_SECONDS)
    connection.close()
    watch.start()
    yield watch
    watch.stop()
    connection.close()


@contextmanager
def frozen() -> Iterator[None]:
    """Freeze the server process of this connection; its kernel keeps acknowledging packets."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def ask() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return int(cursor.fetchone()[0])


def test_wait_for_a_frozen_server_ends_as_an_outage(watch: DatabaseWatch) -> None:
    with frozen(), pytest.raises(DatabaseError) as raised:
        ask()

    refusal = find_refusal(raised.value)
    assert refusal is not None
    assert (refusal.error_code, refusal.status_code) == (ErrorCode.DATABASE_UNAVAILABLE, 503)
    connection.close()  # as the end of the request does
    assert ask() == 1


def test_statement_within_its_time_is_left_alone(watch: DatabaseWatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.1)")
        cursor.fetchone()

    assert watch.end_long_waits() == 0
    assert ask() == 1


def test_without_the_watch_the_wait_does_not_end() -> None:
    answers: list[int] = []
    going, thawed = threading.Event(), threading.Event()

    def wait_for_it() -> None:
        try:
            with frozen_by_another(going, thawed):
                answers.append(ask())
        finally:
            connection.close()

    asking = threading.Thread(target=wait_for_it)
    asking.start()
    going.wait(10)
    asking.join(timeout=4 * LIMIT_SECONDS)
    still_waits = asking.is_alive()
    thawed.set()
    asking.join(timeout=30)

    assert still_waits
    wait_until(lambda: answers == [1])


@contextmanager
def frozen_by_another(going: threading.Event, thawed: threading.Event) -> Iterator[None]:
    """Stop this connection's server process until another thread has seen enough."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        thawed.wait(30)
        os.kill(pid, signal.SIGCONT)

    threading.Thread(target=thaw).start()
    going.set()
    yield


def test_process_without_a_limit_is_not_watched() -> None:
    assert watch_database(0.0) is None
