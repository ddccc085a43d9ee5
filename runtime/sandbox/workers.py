"""The interpreter's worker processes: one pool for each process of ours.

Nothing runs in our own process. A worker has an empty environment and no files of ours; one that does not stop at its
limits, or crashes, is killed and replaced.
"""

import atexit
import ctypes
import os
import threading

from pydantic_monty import Monty, MontyError

from runtime.sandbox.calls import SandboxError

MAX_WORKERS = 4
# A worker that has not answered for so long is killed. The interpreter stops at the limits of a call by itself.
HARD_LIMIT_SECONDS = 30.0
GRACE_SECONDS = 0.5
CHECKOUT_SECONDS = 30.0
CALLS_PER_WORKER = 1_000  # then it is replaced, so that memory it did not give back is

_lock = threading.Lock()
_pool: Monty | None = None
_has_run = False
_was_forked = False  # from a process that had run tools


def get_pool() -> Monty:
    """Return this process's pool, and start it on first use.

    Raises:
        SandboxError: the interpreter cannot be started on this host.
    """
    global _pool, _has_run
    with _lock:
        if _was_forked:
            raise SandboxError("This process was forked from one that had run tools. Start it before tools run.")
        if _pool is None:
            try:
                pool = Monty(
                    min_processes=1,
                    max_processes=MAX_WORKERS,
                    checkout_timeout=CHECKOUT_SECONDS,
                    request_timeout=HARD_LIMIT_SECONDS,
                    max_checkouts_per_worker=CALLS_PER_WORKER,
                    feed_duration_limit_grace=GRACE_SECONDS,
                    turn_duration_limit_grace=GRACE_SECONDS,
                )
                pool.__enter__()
            except (OSError, RuntimeError) as error:
                raise SandboxError(
                    f"The sandbox cannot be started ({error}). Reinstall pydantic-monty, which brings its program."
                ) from error
            _pool, _has_run = pool, True
        return _pool


def start_worker() -> None:
    """Start a worker before it is needed, which takes longer than many a call.

    Raises:
        SandboxError: the interpreter cannot be started on this host.
    """
    try:
        with get_pool().checkout(script_name="start.py") as session:
            session.feed_run("None")
    except (TimeoutError, MontyError) as error:
        raise SandboxError(f"The sandbox was not started ({error}).") from error


def close_pool() -> None:
    """End the workers; the next call starts new ones."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.__exit__(None, None, None)


def _leave_to_parent() -> None:
    """A forked process has the pipes of its parent's workers, and must neither use nor end them.

    It can have none of its own either: the threads that talk to them did not survive the fork, and it would hang.
    """
    global _pool, _lock, _was_forked
    # A thread that did not survive the fork may have held the old one.
    _lock = threading.Lock()
    if _has_run:
        # Neither closed nor freed, not even when this process ends: both would take the workers' pipes out of the epoll
        # set that the two processes share, and the parent would wait for ever.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_pool))
        _pool, _was_forked = None, True


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(close_pool)
