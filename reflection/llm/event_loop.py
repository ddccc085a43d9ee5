"""The event loop of this process, in a thread of its own, on which all models are asked.

A question that is under way costs a task there, and neither a thread nor a process.
"""

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

_T = TypeVar("_T")
_lock = Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None  # with its process: a fork has no threads


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, started where it is not."""
    global _running
    with _lock:
        if _running is None or _running[0] != os.getpid():
            loop = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="models", daemon=True).start()
            _running = (os.getpid(), loop)
        return _running[1]


def start(coroutine: Coroutine[Any, Any, _T]) -> "Future[_T]":
    """Begin a coroutine on the loop; cancelling what is returned ends it there."""
    return asyncio.run_coroutine_threadsafe(coroutine, get_loop())
