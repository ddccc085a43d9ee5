"""Sends the runs of a spool in the background, in order, until ERL has recorded each of them."""

import logging
import os
import random
import time
import weakref
from collections import deque
from collections.abc import Mapping
from threading import Condition, Thread
from typing import Any
from uuid import uuid4

from erl_client.api import Api, ERLError, Refused, Unavailable
from erl_client.spool import Spool, WaitingRun

log = logging.getLogger("erl_client")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
MAX_RETRY_AFTER_SECONDS = 3_600.0
LOCKED_PAUSE_SECONDS = 0.2
MAX_RUNS_IN_MEMORY = 100


class Outbox:
    """Takes runs at once and sends them from a thread of its own, which never keeps the process alive.

    Of a run that ERL refuses a copy stays in the spool's folder `refused`. While the key is refused all runs wait.
    """

    def __init__(self, api: Api, spool: Spool) -> None:
        self._api = api
        self._spool = spool
        self._reset()
        if hasattr(os, "register_at_fork"):
            after_fork = weakref.WeakMethod(self._reset)
            os.register_at_fork(after_in_child=lambda: (method := after_fork()) and method())

    def _reset(self) -> None:
        """Begin without a thread, also in a forked process, which has none of its parent's."""
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False
        self._has_more = False
        self._is_sending = False
        self._failures = 0
        self._paused_until = 0.0  # by time.monotonic, as the next
        self._not_before = 0.0  # ERL asked for it with Retry-After
        self._in_memory: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=MAX_RUNS_IN_MEMORY)
        self.last_error: ERLError | None = None

    def put(self, run: Mapping[str, Any], *, key: str = "") -> None:
        """Keep a run until it is recorded: on disk, or in memory where it cannot be written down.

        `key` is the UUID of a run that may be put here a second time, and is recorded once.
        """
        try:
            dropped = self._spool.add(run, key=key)
        except OSError as error:
            log.warning("Runs will be lost if this process ends: %s cannot be written.", error.filename)
            self._in_memory.append((key or str(uuid4()), run))
        else:
            if dropped:
                log.warning("ERL was unreachable for too long: the %d oldest waiting runs were dropped.", dropped)
        self.start()

    def start(self) -> None:
        """Send what waits, also what earlier processes left."""
        with self._changed:
            self._has_more = True
            if not self._closed and (self._thread is None or not self._thread.is_alive()):
                self._thread = Thread(target=self._work, name="erl-outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def is_empty(self) -> bool:
        return not self._in_memory and self._spool.is_empty()

    def flush(self, seconds: float, *, patient: bool = True) -> bool:
        """Wait until everything is recorded, and tell whether it is.

        One who is not patient waits only while runs are being sent, not for an ERL that is away.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self._failures, self._paused_until = 0, 0.0
        if not self.is_empty():
            self.start()
        with self._changed:
            while not self.is_empty():
                left = deadline - time.monotonic()
                is_pausing = self._failures > 0 or time.monotonic() < self._not_before
                if left <= 0 or (not patient and is_pausing and not self._is_sending):
                    return False
                self._changed.wait(min(left, 0.05))
        return True

    def close(self, seconds: float) -> None:
        """Give the runs that wait a moment to be recorded, then end the thread. What is left stays on disk."""
        if self._thread is not None:
            self.flush(seconds, patient=False)
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and not self._is_sending:
            thread.join(0.2)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._may_send():
                    due = max(self._paused_until, self._not_before) - time.monotonic()
                    self._changed.wait(max(0.01, due) if self._has_more else None)
                if self._closed:
                    return
                self._has_more, self._is_sending = False, True
            try:
                self._send_all()
            except ERLError as error:
                self._pause(error)
            except Exception as error:
                log.debug("The outbox cannot send.", exc_info=True)
                self._pause(Unavailable(f"The spool cannot be read: {error}"))
            finally:
                with self._changed:
                    self._is_sending = False
                    self._changed.notify_all()

    def _may_send(self) -> bool:
        return self._has_more and time.monotonic() >= max(self._paused_until, self._not_before)

    def _send_all(self) -> None:
        """Send all that waits, or raise what stands in the way."""
        while self._in_memory:
            key, body = self._in_memory[0]
            if refused := self._post(body, key):
                log.warning("ERL refused a run. %s", refused)
            self._in_memory.popleft()
        with self._spool.sending() as mine:
            while mine and (waiting := self._spool.waiting()):
                for run in waiting:
                    if self._closed:
                        return
                    self._send(run)
        if not mine:  # another process sends, ours as well as its own
            with self._changed:
                self._has_more = not self._spool.is_empty()
                self._paused_until = time.monotonic() + LOCKED_PAUSE_SECONDS

    def _send(self, run: WaitingRun) -> None:
        try:
            body = run.read()
        except FileNotFoundError:  # made room
            return
        except (OSError, ValueError) as error:
            self._spool.set_aside(run, f"The file cannot be read: {error}")
            return
        if refused := self._post(body, run.key):
            self._spool.set_aside(run, str(refused))
            log.warning("ERL refused a run, which is kept in %s. %s", self._spool.refused_folder, refused)
        else:
            self._spool.remove(run)

    def _post(self, body: Mapping[str, Any], key: str) -> Refused | None:
        """Record a run, or return why ERL will not have it."""
        try:
            answer = self._api.post("/trajectories", body, idempotency_key=key)
        except Refused as error:
            if error.is_about_the_key:
                raise
            self.last_error = error
            return error
        if "id" not in answer:
            raise Unavailable("The server at ERL's address did not record the run; check ERL_URL.")
        with self._changed:
            self._failures, self.last_error = 0, None
        return None

    def _pause(self, error: ERLError) -> None:
        if not self._failures:
            log.warning("Runs are kept in %s until ERL is reachable again. %s", self._spool.folder, error)
        now = time.monotonic()
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**self._failures)
        with self._changed:
            self.last_error = error
            self._has_more = True
            self._failures = min(self._failures + 1, 30)
            self._paused_until = now + pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads clients out
            if isinstance(error, Unavailable) and error.retry_after_seconds is not None:
                self._not_before = now + min(error.retry_after_seconds, MAX_RETRY_AFTER_SECONDS)
