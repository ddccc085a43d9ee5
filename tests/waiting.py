"""Wait for what other processes and threads do."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], *, seconds: float = 30.0, every_seconds: float = 0.02) -> T:
    """Return the first true value of `condition`; fail when there is none in time."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"nothing after {seconds} seconds"
        time.sleep(every_seconds)
    return value


def step_through(parts: AsyncIterator[T]) -> Iterator[T]:
    """Take one part after the other of what is made in an event loop."""

    async def take() -> T:
        return await anext(parts)

    with asyncio.Runner() as runner:
        while True:
            try:
                yield runner.run(take())
            except StopAsyncIteration:
                return


def is_anyone_waiting() -> bool:
    """Tell whether a session of the database waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])
