"""The events of runs for those who follow them: one thread and one connection to the database for all of a process.

PostgreSQL tells of new events; once a second the thread looks by itself too, so that no event depends on being told.
Parts of answers are only told: without LISTEN, behind a pooler in transaction mode, readers get whole messages. The
thread also ends the streams of readers who may no longer follow.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from runtime.streaming.events import CHANNEL
from runtime.streaming.readers import StreamReader
from runtime.streaming.reading import Seen, read_events

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
CHECK_SECONDS = 3.0  # after a revocation a stream ends within this and the second of a look
REST_SECONDS = 1.0  # after an error


class Notice(NamedTuple):
    """What PostgreSQL tells: that a run has new events or, with `text`, a part of an answer after one of its events."""

    run_id: UUID
    after: int = 0
    text: str = ""  # as JSON

    @classmethod
    def read(cls, payload: str) -> "Notice":
        run_id, *part = payload.split(" ", 2)
        return cls(UUID(run_id), int(part[0]), part[1]) if part else cls(UUID(run_id))


class Subscription:
    """The events of one run after a certain one, for one reader, who waits for them in an event loop."""

    def __init__(self, run_id: UUID, after: int, reader: StreamReader) -> None:
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

    def give_text(self, part: Notice) -> None:
        """Hand over a part of an answer, unless an event that was written after it was handed over before."""
        if part.after >= self.position:
            self._put([Seen(0, "text", orjson.loads(part.text))])

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
        # The event loop may have ended, and the reader with it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, events)


class Feed:
    """Hands events to subscriptions, while there are any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: set[Subscription] = set()
        self._thread: Thread | None = None
        self._process_id = 0

    @contextmanager
    def subscribe(self, run_id: UUID, *, after: int, reader: StreamReader) -> Iterator[Subscription]:
        """Follow a run inside the block, for as long as the reader may."""
        subscription = Subscription(run_id, after, reader)
        with self._lock:
            # After a fork, the readers and the thread are those of the parent.
            if self._process_id != os.getpid():
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
            # This is a call of the driver, so Django does not translate its errors unless asked to.
            with connection.wrap_database_errors:
                notices = [Notice.read(told.payload) for told in raw.notifies(timeout=LOOK_SECONDS, stop_after=1)]
            told = {notice.run_id for notice in notices if not notice.text}
            if told or not notices:
                self._hand_out(told)
            for part in notices:
                if part.text:
                    self._hand_on(part)

    def _check_readers(self) -> None:
        with self._lock:
            subscriptions = list(self._subscriptions)
        gone = {reader for reader in {entry.reader for entry in subscriptions} if not reader.may_follow()}
        for subscription in subscriptions:
            if subscription.reader in gone:
                subscription.end()

    def _hand_out(self, told: set[UUID]) -> None:
        """Read what is new for the readers of these runs, or of all where the time is over."""
        # The lock is not held while the database is asked.
        with self._lock:
            readers = [subscription for subscription in self._subscriptions if not told or subscription.run_id in told]
        for run_id in {subscription.run_id for subscription in readers}:
            concerned = [subscription for subscription in readers if subscription.run_id == run_id]
            # From the reader who is furthest behind; `give` leaves out what the others have already.
            events = read_events(run_id, after=min(subscription.position for subscription in concerned))
            for subscription in concerned:
                subscription.give(events)

    def _hand_on(self, part: Notice) -> None:
        """Give a part of an answer to the readers of its run, after the events before it."""
        with self._lock:
            readers = [subscription for subscription in self._subscriptions if subscription.run_id == part.run_id]
        if any(reader.position < part.after for reader in readers):
            self._hand_out({part.run_id})
        for reader in readers:
            reader.give_text(part)


feed = Feed()
