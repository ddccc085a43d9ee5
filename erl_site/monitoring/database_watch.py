"""Stop waiting for a database that is frozen rather than dead (reliability C4).

A frozen server, or one on a frozen host, enforces none of its timeouts, while its kernel keeps acknowledging packets.
So each web process looks twice a second for statements that have waited longer than the server should allow, and closes
their sockets. The waiting thread finds its connection lost, and the client gets a 503.
"""

import os
import socket
import threading
import time
import weakref
from typing import Any

import psycopg
import structlog
from django.db.backends.signals import connection_created

log = structlog.get_logger(__name__)

GRACE_SECONDS = 2.0  # the server's own timeout comes first, since it names the statement
CHECK_SECONDS = 0.5


class DatabaseWatch:
    """Tracks how long each connection has waited for the server, and ends waits that take too long."""

    def __init__(self, *, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._watched: list[tuple[weakref.ref[psycopg.Connection[Any]], list[float]]] = []
        self._ended = threading.Event()

    def start(self) -> None:
        """Watch every new connection until `stop`."""
        connection_created.connect(self._watch_new, weak=False, dispatch_uid=id(self))
        threading.Thread(target=self._check, name="database-watch", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        connection_created.disconnect(dispatch_uid=id(self))
        self._ended.set()

    def watch(self, raw: psycopg.Connection[Any]) -> None:
        """Record when a connection starts and stops waiting for the server."""
        # A list is the cheapest mutable value, and this runs for every statement.
        wait, since = raw.wait, [0.0]

        def timed_wait(*arguments: Any, **options: Any) -> Any:
            since[0] = time.monotonic()
            try:
                return wait(*arguments, **options)
            finally:
                since[0] = 0.0

        raw.wait = timed_wait  # type: ignore[method-assign]
        self._watched = [entry for entry in self._watched if entry[0]() is not None] + [(weakref.ref(raw), since)]

    def end_long_waits(self) -> int:
        """Close the sockets of connections that have waited too long; return how many."""
        ended = 0
        for reference, since in self._watched:
            began, raw = since[0], reference()
            if raw is not None and began and time.monotonic() - began > self.limit_seconds:
                ended += _shut(raw, since, began)
        return ended

    def _watch_new(self, connection: Any, **_: Any) -> None:
        self.watch(connection.connection)

    def _check(self) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            self.end_long_waits()


def _shut(raw: psycopg.Connection[Any], since: list[float], began: float) -> bool:
    try:
        # The copy stays this socket, even if the waiting thread closes it and opens others.
        copy = os.dup(raw.fileno())
    except (OSError, psycopg.Error):
        return False
    with socket.socket(fileno=copy) as duplicate:
        if since[0] != began:  # it got its answer
            return False
        duplicate.shutdown(socket.SHUT_RDWR)
    log.warning("database_wait_ended", seconds=round(time.monotonic() - began, 1))
    return True


def watch_database(statement_seconds: float) -> DatabaseWatch | None:
    """Watch this process's connections if statements have a time limit; return the watch."""
    if not statement_seconds:
        return None
    watch = DatabaseWatch(limit_seconds=statement_seconds + GRACE_SECONDS)
    watch.start()
    return watch
