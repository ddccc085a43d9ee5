"""The events of runs for those who follow them: one thread and one connection to the database for all of a process.

PostgreSQL tells of new events; once a second the thread looks by itself too, so that nothing depends on being told. It
also ends the streams of readers who may no longer follow.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from runtime.models.runs import Event
from runtime.streaming.events import CHANNEL
from runtime.streaming.readers import Reader

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
CHECK_SECONDS = 3.0  # after a revocation a stream ends within this and the second of a look
AT_ONCE = 500
REST_SECONDS = 1.0  # after an error


class Seen(NamedTuple):
    """An event as it is sent."""

    seq: int
    kind: str
    payload: dict[str, Any]


def read_events(run_id: UUID, *, after: int) -> list[Seen]:
    """Return the next events of a run, in their order."""
    rows = Event.objects.filter(run=run_id, seq__gt=after).order_by("seq")
    return [Seen(*row) for row in rows.values_list("seq", "kind", "payload")[:AT_ONCE]]


class Subscription:
    """The events of one run after a certain one, for one reader, who waits for them in an event loop."""

    def __init__(self, run_id: UUID, after: int, reader: Reader) -> None:
        self.run_id = run_id
        self.position = after
        self.reader = reader
        self.is_over = False  # the reader may follow no more
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[list[Seen]] = asyncio.Queue()

    def give(self, events: Iterable[Seen]) -> None:
        """Hand over those events that were not handed over before."""
        new = [event for event in events if event.seq > self.position]
        if new:
            self.position = new[-1].seq
            self._put(new)

    async def take(self, *, seconds: float) -> list[Seen]:
        """Return the next events, or none where none came in time."""
        try:
            async with asyncio.timeout(seconds):
                events = await self._events.get()
        except TimeoutError:
            return []
        return [] if self.is_over else events

    def end(self) -> None:
        """Give nothing more, not even what was handed over and not yet taken."""
        self.is_over = True
        self._put([])  # wakes the reader

    def _put(self, events: list[Seen]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the reader with it
            self._loop.call_soon_threadsafe(self._events.put_nowait, events)


class Feed:
    """Hands events to subscriptions, while there are any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: set[Subscription] = set()
        self._thread: Thread | None = None
        self._process_id = 0

    @contextmanager
    def subscribe(self, run_id: UUID, *, after: int, reader: Reader) -> Iterator[Subscription]:
        """Follow a run inside the block, for as long as the reader may."""
        subscription = Subscription(run_id, after, reader)
        with self._lock:
            if self._process_id != os.getpid():  # after a fork: the readers and the thread are the parent's
                self._process_id, self._subscriptions, self._thread = os.getpid(), set(), None
            self._subscriptions.add(subscription)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="event-feed", daemon=True)
                self._thread.start()
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.discard(subscription)

    def _run(self) -> None:
        try:
            while self._is_wanted():
                try:
                    self._listen()
                except (DatabaseError, InterfaceError) as error:
                    log.warning("event_feed_failed", error=type(error).__name__)
                    connection.close()
                    time.sleep(REST_SECONDS)
        finally:
            connection.close()

    def _is_wanted(self) -> bool:
        """Tell whether anyone reads; where not, the thread ends, and the next reader starts another."""
        with self._lock:
            if not self._subscriptions:
                self._thread = None
            return self._thread is not None

    def _listen(self) -> None:
        connection.ensure_connection()
        raw: Any = connection.connection
        if not settings.ERL_DATABASE_POOLER:
            with connection.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
        checked_at = time.monotonic()
        while self._is_wanted():
            if time.monotonic() - checked_at >= CHECK_SECONDS:
                self._check_readers()
                checked_at = time.monotonic()
            with connection.wrap_database_errors:
                told = {UUID(each.payload) for each in raw.notifies(timeout=LOOK_SECONDS, stop_after=1)}
            self._hand_out(told)

    def _check_readers(self) -> None:
        with self._lock:
            subscriptions = list(self._subscriptions)
        gone = {reader for reader in {each.reader for each in subscriptions} if not reader.may_follow()}
        for subscription in subscriptions:
            if subscription.reader in gone:
                subscription.end()

    def _hand_out(self, told: set[UUID]) -> None:
        """Read what is new for the readers of these runs, or of all where the time is over."""
        with self._lock:
            readers = [each for each in self._subscriptions if not told or each.run_id in told]
        for run_id in {each.run_id for each in readers}:
            concerned = [each for each in readers if each.run_id == run_id]
            events = read_events(run_id, after=min(each.position for each in concerned))
            for each in concerned:
                each.give(events)


feed = Feed()
