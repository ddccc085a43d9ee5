"""Runs one command at a time: its output is shown and kept, and nothing of its process group outlives it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO, TextIO

SUPERVISOR = Path(__file__).with_name("supervisor.py")
MAX_KEPT_BYTES = 10_000_000  # of each stream
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.05
CHUNK_BYTES = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a command ended. `why` is "exit", "timeout", or "stop" where it was asked to stop."""

    exit_code: int | None
    why: str


def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    timeout_seconds: float,
    stop: Event,
) -> Ended:
    """Run a command to its end, for so long, or until it is to stop. Raises OSError.

    It has a session of its own, no input, and its output goes to ours and to the files `output` with `.stdout` and
    `.stderr`. Even if this process is killed, its process group is.
    """
    watched, held = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-IS", str(SUPERVISOR), str(watched), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
            pass_fds=(watched,),
        )
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(watched)
    try:
        assert process.stdout
        assert process.stderr
        pumps = [
            _pump(process.stdout, sys.stdout, output.with_suffix(".stdout")),
            _pump(process.stderr, sys.stderr, output.with_suffix(".stderr")),
        ]
        why = _wait(process, time.monotonic() + timeout_seconds, stop)
    finally:
        _end_group(process)
        os.close(held)
    for pump in pumps:
        pump.join(GRACE_SECONDS)  # who left the group may hold the pipe for longer
    return Ended(exit_code=process.returncode if why == "exit" else None, why=why)


def _wait(process: "subprocess.Popen[bytes]", deadline: float, stop: Event) -> str:
    while process.poll() is None:
        if stop.is_set():
            return "stop"
        if time.monotonic() >= deadline:
            return "timeout"
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
    return "exit"


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of a command: it is asked first, and killed where it stays."""
    deadline = time.monotonic() + GRACE_SECONDS
    is_there = _signal(process.pid, signal.SIGTERM)
    while is_there and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        process.poll()
        is_there = _signal(process.pid, 0)
    if is_there:
        _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group, and tell whether there is one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of processes that have ended
        return False
    return True


def _pump(stream: IO[bytes], show: TextIO, file: Path) -> Thread:
    kept = KeptOutput(file)

    def work() -> None:
        try:
            while chunk := os.read(stream.fileno(), CHUNK_BYTES):
                with suppress(OSError, ValueError, AttributeError):  # nobody looks any more, or not at bytes
                    show.buffer.write(chunk)
                    show.buffer.flush()
                with suppress(OSError):  # a full disk does not stop the agent
                    kept.write(chunk)
        finally:
            with suppress(OSError):
                kept.close()
            stream.close()

    thread = Thread(target=work, name=f"erl-{file.name}", daemon=True)
    thread.start()
    return thread


class KeptOutput:
    """A file with the output of a command. Of very much output it has the beginning and the end."""

    def __init__(self, file: Path, *, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._file = file.open("wb", buffering=0)
        self._room = max_bytes // 2
        self._max_tail = max_bytes - self._room
        self._tail = bytearray()
        self._left_out = 0

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk[: self._room])
        self._tail += chunk[self._room :]
        self._room = max(0, self._room - len(chunk))
        if len(self._tail) > 2 * self._max_tail:
            self._shorten()

    def close(self) -> None:
        self._shorten()
        if self._left_out:
            self._file.write(b"\n[... cut: %d bytes left out here ...]\n" % self._left_out)
        self._file.write(self._tail)
        self._file.close()

    def _shorten(self) -> None:
        if (too_many := len(self._tail) - self._max_tail) > 0:
            del self._tail[:too_many]
            self._left_out += too_many
