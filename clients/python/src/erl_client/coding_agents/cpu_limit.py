"""A limit on the processor time that reading the files of an agent may take, where the system can tell it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GRACE_SECONDS = 1.0


class TooMuchWork(BaseException):
    """Something took more processor time than it may. No `except Exception` on the way holds it up."""


@contextmanager
def limited_cpu(seconds: float) -> Iterator[None]:
    """Raise TooMuchWork in a block that takes so much processor time; the process ends where it goes on after that.

    Without interval timers, as on Windows, and in other threads than the first there is no limit.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped = False

    def stop(*_: Any) -> None:
        nonlocal stopped
        if stopped:
            os._exit(0)
        stopped = True
        raise TooMuchWork

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, GRACE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
