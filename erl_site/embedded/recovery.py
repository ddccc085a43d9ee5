"""Bring the embedded PostgreSQL back without letting a request wait for it longer than a moment."""

import threading
import time
from collections.abc import Callable

import psycopg

from erl_site.embedded.home import EmbeddedServerError


class Recovery:
    """Starts a server in a thread of its own, once for all threads of this process that find it down.

    Starting takes seconds, and again as long if the server is killed meanwhile. The threads wait only until
    `patience_seconds` after the first of them found the server down; later ones do not wait at all.
    """

    def __init__(self, start: Callable[[], object], *, patience_seconds: float) -> None:
        self._start = start
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._began_at = 0.0
        self._error: EmbeddedServerError | psycopg.Error | None = None

    def wait(self) -> None:
        """Wait until the server is back.

        Raises:
            psycopg.OperationalError: it is not back in time, or cannot start.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._began_at = time.monotonic()
                # A daemon thread, so that a start that hangs does not keep the process alive
                self._thread = threading.Thread(target=self._run, name="postgres-recovery", daemon=True)
                self._thread.start()
            thread, left = self._thread, self._began_at + self._patience_seconds - time.monotonic()
        thread.join(max(0.0, left))
        if thread.is_alive():
            raise psycopg.OperationalError("The embedded PostgreSQL is starting. Try again in a few seconds.")
        if self._error is not None:
            raise psycopg.OperationalError(str(self._error)) from self._error

    def _run(self) -> None:
        self._error = None
        try:
            self._start()
        except (EmbeddedServerError, psycopg.Error) as error:
            self._error = error
