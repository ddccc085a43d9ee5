"""Requests that wait for something (`Prefer: wait=N`) without keeping a thread from the others."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_WAITING = 8  # in a process; each costs a thread that sleeps and a connection of the database

_places = threading.BoundedSemaphore(MAX_WAITING)
# Called by a request that waits from now on: the web server then gives its turn to another
step_aside: ContextVar[Callable[[], object]] = ContextVar("step_aside", default=lambda: None)


@contextmanager
def waiting_place() -> Iterator[bool]:
    """Let this request wait inside the block; False if as many wait already as may."""
    # Not blocking: a request that queued here would hold the thread that this is meant to spare.
    if not _places.acquire(blocking=False):
        yield False
        return
    try:
        step_aside.get()()
        yield True
    finally:
        _places.release()
