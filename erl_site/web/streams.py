"""Answers that last: each has a thread of its own, and what it writes is sent at once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from erl_site.web.connections import Connection

MOST_STREAMS = 256  # in a process; each costs a thread that sleeps


class Seats:
    """How many streams there may be, and whose they are. Any thread may ask.

    A stream can last for days, so what is taken is not soon free. A key or a person never holds more than are left to
    others, and all keys of a project together at most three times as many: whoever comes next finds some.
    """

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._taken = 0
        self._held: Counter[str] = Counter()
        self._lock = Lock()

    def take(self, holders: Sequence[str]) -> bool:
        """Take one for a reader and what it is part of; return whether there was one for them."""
        with self._lock:
            left = self._most - self._taken
            if any(self._held[holder] >= left * share for holder, share in zip(holders, (1, 3), strict=False)):
                return False
            self._taken += 1
            self._held.update(holders)
            return True

    def give_back(self, holders: Sequence[str]) -> None:
        with self._lock:
            self._taken -= 1
            self._held.subtract(holders)
            self._held = +self._held  # no one who holds none is kept


class Streams:
    """The answers under way that last. Its methods are called by threads that run the application."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(MOST_STREAMS, thread_name_prefix="stream")
        self._is_stopping = False
        self.seats = Seats()

    def send(self, response: Any, parts: Any, connection: Connection) -> None:
        """Send the parts of an answer that has a seat as they come; the request has given its thread back."""
        response.force_close()
        response.sock = LiveSink(self._loop, connection)
        self._pool.submit(self._send, response, parts, connection)

    def stop(self) -> None:
        """End all of them; their readers go on elsewhere."""
        self._is_stopping = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, response: Any, parts: Any, connection: Connection) -> None:
        try:
            for part in parts:
                if self._is_stopping or connection.is_gone:
                    break
                if part:
                    response.write(part)
            response.close()
        except OSError:
            return  # the reader is gone
        finally:
            self.seats.give_back(parts.holders)
            parts.close()
            self._loop.call_soon_threadsafe(lambda: connection.answer(b"", close=True))


class LiveSink:
    """Sends where gunicorn writes to a socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        self._loop = loop
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        if self._connection.is_gone:
            raise BrokenPipeError
        self._loop.call_soon_threadsafe(self._connection.send_part, bytes(data))

    def gettimeout(self) -> float:
        """Nothing waits here."""
        return 0.0
