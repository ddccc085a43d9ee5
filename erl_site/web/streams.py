"""Answers that last: each has a thread of its own, and what it writes is sent at once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from erl_site.web.connections import Connection

MOST_STREAMS = 128  # in a process; each costs a thread that sleeps


class Streams:
    """The answers under way that last. Its methods are called by threads that run the application."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(MOST_STREAMS, thread_name_prefix="stream")
        self._count = 0
        self._is_stopping = False

    @property
    def is_full(self) -> bool:
        return self._count >= MOST_STREAMS

    def send(self, response: Any, parts: Any, connection: Connection) -> None:
        """Send the parts of an answer as they come, after the request has given its thread back."""
        response.force_close()
        response.sock = LiveSink(self._loop, connection)
        self._count += 1
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
            self._count -= 1
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
