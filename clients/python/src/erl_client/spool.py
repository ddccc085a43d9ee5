"""Runs on disk that ERL has not recorded yet, one file each, in the order in which they ended.

A run is here before the block that made it ends, and until ERL has answered: a process may die at any moment. Processes
that record to the same project share the folder, and a lock lets one of them send at a time.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from erl_client.api import Destination

MAX_RUNS = 1_000
MAX_BYTES = 200_000_000
MAX_REFUSED = 100
_SPELLED_OUT = re.compile(r"\\u([0-9a-fA-F]{4})")


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingRun:
    """A run that waits in the spool. `key` is the same each time it is sent."""

    path: Path
    key: str

    def read(self) -> dict[str, Any]:
        """Return the run. Raises OSError or ValueError where the file cannot be read."""
        run = json.loads(self.path.read_bytes())
        if not isinstance(run, dict):
            raise ValueError("The file does not hold a run.")
        return run


def spool_folder(destination: Destination) -> Path:
    """Return the folder of the runs for one project: `ERL_SPOOL`, or else the user's state folder."""
    name = sha256(f"{destination.url}\n{destination.api_key}".encode()).hexdigest()[:16]
    return spool_root() / name


def spool_root() -> Path:
    """Return the folder in which each project has its own."""
    return Path(os.environ.get("ERL_SPOOL") or state_folder() / "erl" / "spool")


def state_folder() -> Path:
    place = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME")
    if place:
        return Path(place)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir())


class Spool:
    """The folder of one project. `max_runs` and `max_bytes` bound it: the oldest runs make room for new ones."""

    def __init__(self, folder: Path, *, max_runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.refused_folder = folder / "refused"
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._last_ns = 0
        self._adding = Lock()

    def add(self, run: Mapping[str, Any], *, key: str = "") -> int:
        """Write a run down, and return how many older ones had to make room. Raises OSError.

        `key` is sent as the Idempotency-Key; without one it is made up.
        """
        content = json.dumps(run, ensure_ascii=False, separators=(",", ":")).encode()
        self.refused_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._adding:
            self._last_ns = max(self._last_ns + 1, time.time_ns())
            name = f"{self._last_ns:020d}-{key or uuid4()}"
            unfinished = self.folder / f"{name}.part"
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            unfinished.rename(self.folder / f"{name}.json")
        return self._make_room()

    def waiting(self) -> list[WaitingRun]:
        """Return the runs that wait, the oldest first."""
        paths = sorted(self.folder.glob("*.json"))
        return [WaitingRun(path=path, key=path.stem.partition("-")[2]) for path in paths]

    def is_empty(self) -> bool:
        return next(self.folder.glob("*.json"), None) is None

    def remove(self, run: WaitingRun) -> None:
        run.path.unlink(missing_ok=True)

    def set_aside(self, run: WaitingRun, reason: str) -> None:
        """Keep a run that cannot be recorded, with the reason beside it, out of the way of the others."""
        with suppress(FileNotFoundError):
            run.path.rename(self.refused_folder / run.path.name)
        (self.refused_folder / f"{run.path.stem}.txt").write_text(f"{reason}\n", encoding="utf-8")
        for path in self.refused()[:-MAX_REFUSED]:
            path.unlink(missing_ok=True)
            path.with_suffix(".txt").unlink(missing_ok=True)

    def refused(self) -> list[Path]:
        """Return the files of runs that were set aside, the oldest first."""
        return sorted(self.refused_folder.glob("*.json"))

    @contextmanager
    def sending(self) -> Iterator[bool]:
        """Hold the lock on sending, and tell whether this process has it. A process that dies gives it back."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(self.folder / "sending.lock") as mine:
            yield mine

    def _make_room(self) -> int:
        sizes = []
        for run in self.waiting():
            with suppress(FileNotFoundError):
                sizes.append((run, run.path.stat().st_size))
        total, dropped = sum(size for _, size in sizes), 0
        while sizes[1:] and (len(sizes) > self._max_runs or total > self._max_bytes):
            run, size = sizes.pop(0)
            self.remove(run)
            total, dropped = total - size, dropped + 1
        return dropped


def forget(root: Path, texts: Sequence[str]) -> int:
    """Remove what the spools below a folder hold of any of these texts, in whatever case; return how many runs it was.

    Of notes, which are lines, only those go that hold one.
    """
    forms = {form.lower() for text in texts for form in (text, _escape(text))}
    removed = 0
    for path in [path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"]:
        with suppress(OSError):  # it was sent meanwhile
            content = path.read_text(encoding="utf-8", errors="replace")
            if not _holds(content, forms):
                continue
            if path.suffix == ".jsonl":
                path.write_text("".join(line for line in content.splitlines(True) if not _holds(line, forms)), "utf-8")
                continue
            path.unlink()
            path.with_suffix(".txt").unlink(missing_ok=True)  # why it was refused
            removed += path.suffix == ".json"
    return removed


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _holds(text: str, forms: Collection[str]) -> bool:
    # Notes spell out other letters than those of ASCII, which have no case then.
    lowered = _SPELLED_OUT.sub(lambda code: chr(int(code[1], 16)), text).lower()
    return any(form in lowered for form in forms)


@contextmanager
def lock_file(path: Path) -> Iterator[bool]:
    """Hold the lock on a file, and tell whether this process has it. A process that dies gives it back."""
    with path.open("a+b") as lock:
        mine = _try_lock(lock.fileno())
        try:
            yield mine
        finally:
            if mine:
                _unlock(lock.fileno())


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(file: int) -> None:
        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
