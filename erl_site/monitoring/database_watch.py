"""End waits for a database that is frozen rather than dead (reliability C4).

The server enforces every time-out of a connection. A server that was stopped, or whose host hangs, enforces none, while
its kernel goes on acknowledging packets. So each web process looks, twice a second, for statements that wait longer
than the server would have let them run, and closes their sockets. The waiting thread then finds its connection gone,
as if the server had died, and the caller gets a 503.
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

GRACE_SECONDS = 2.0  # the server's own limit comes first, so that it can say which statement it was
LOOK_SECONDS = 0.5


class DatabaseWatch:
    """Knows since when each connection has waited for the server, and ends waits that take too long."""

    def __init__(self, *, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._watched: list[tuple[weakref.ref[psycopg.Connection[Any]], list[float]]] = []
        self._ended = threading.Event()

    def start(self) -> None:
        """Watch every connection that is made from now on, until `stop`."""
        connection_created.connect(self._take, weak=False, dispatch_uid=id(self))
        threading.Thread(target=self._look, name="database-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer."""
        connection_created.disconnect(dispatch_uid=id(self))
        self._ended.set()

    def watch(self, raw: psycopg.Connection[Any]) -> None:
        """Note when a connection begins to wait for the server and when it has its answer."""
        wait, since = raw.wait, [0.0]  # a list is the cheapest cell, and this surrounds every statement

        def noted(*arguments: Any, **options: Any) -> Any:
            since[0] = time.monotonic()
            try:
                return wait(*arguments, **options)
            finally:
                since[0] = 0.0

        raw.wait = noted  # type: ignore[method-assign]
        self._watched = [each for each in self._watched if each[0]() is not None] + [(weakref.ref(raw), since)]

    def end_long_waits(self) -> int:
        """Shut the sockets of connections that wait too long; return how many."""
        ended = 0
        for reference, since in self._watched:
            began, raw = since[0], reference()
            if raw is not None and began and time.monotonic() - began > self.limit_seconds:
                ended += _shut(raw, since, began)
        return ended

    def _take(self, connection: Any, **_: Any) -> None:
        self.watch(connection.connection)

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.end_long_waits()


def _shut(raw: psycopg.Connection[Any], since: list[float], began: float) -> bool:
    try:
        copy = os.dup(raw.fileno())  # stays this socket, whatever the waiting thread closes and opens meanwhile
    except (OSError, psycopg.Error):
        return False
    with socket.socket(fileno=copy) as its:
        if since[0] != began:  # it has its answer
            return False
        its.shutdown(socket.SHUT_RDWR)
    log.warning("database_wait_ended", seconds=round(time.monotonic() - began, 1))
    return True


def watch_database(statement_seconds: float) -> DatabaseWatch | None:
    """Watch this process's connections where statements have a limit; return the watch."""
    if not statement_seconds:
        return None
    watch = DatabaseWatch(limit_seconds=statement_seconds + GRACE_SECONDS)
    watch.start()
    return watch
