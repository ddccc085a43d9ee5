"""Wait for a process that starts for as long as it does something, however slow the machine is."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from erl_site.embedded import processes
from erl_site.embedded.home import log_size

STALLED_SECONDS = 120.0
BUSY_SHARE = 0.02  # of one processor; what only waits uses less (web 0.2 %, PostgreSQL 1 %, the worker 1.7 %)
FIRST_WORD_SECONDS, NEXT_WORD_SECONDS = 20.0, 60.0
_LOOK_SECONDS = 1.0  # looking through all processes costs some milliseconds


class Patience:
    """Sees whether a process, with all it started, uses the processor or writes to its log.

    Args:
        find_process: returns the process's id, or None while there is none.
        seconds: how long it may do nothing; None means STALLED_SECONDS.
    """

    def __init__(self, find_process: Callable[[], int | None], log: Path, *, seconds: float | None = None) -> None:
        self.seconds = STALLED_SECONDS if seconds is None else seconds
        self.used_seconds = 0.0
        self._find_process = find_process
        self._log = log
        self._log_size = log_size(log)
        self._counted_seconds = 0.0  # of used_seconds, those that have shown progress
        self._began_at = self._moved_at = self._looked_at = time.monotonic()
        self._word_due_at = self._began_at + FIRST_WORD_SECONDS

    def is_over(self) -> bool:
        """Tell whether nothing has happened for as long as it may."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            self._look(now)
        return now - self._moved_at > self.seconds

    def is_word_due(self) -> bool:
        """Tell whether people have waited so long that they should read what for. True now and then."""
        is_due = time.monotonic() > self._word_due_at
        if is_due:
            self._word_due_at = time.monotonic() + NEXT_WORD_SECONDS
        return is_due

    def describe(self) -> str:
        """Return what was seen so far, for people who wait."""
        return (
            f"after {time.monotonic() - self._began_at:.0f} s it has used {self.used_seconds:.0f} s of processor time, "
            f"and the load of this machine is {os.getloadavg()[0]:.0f} on {os.cpu_count()} processors"
        )

    def _look(self, now: float) -> None:
        process, size = self._find_process(), log_size(self._log)
        used = processes.used_seconds(process) if process is not None else 0.0
        if used < self._counted_seconds:  # another process, after a crash
            self._counted_seconds = 0.0
        self.used_seconds = used
        is_busy = used - self._counted_seconds > BUSY_SHARE * self.seconds
        if is_busy or size != self._log_size:
            self._moved_at, self._counted_seconds, self._log_size = now, used, size
