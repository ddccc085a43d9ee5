"""What the operating system says about processes: /proc on Linux, `ps` elsewhere (macOS)."""

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "stat").exists()
GONE = ("", "Z")


def state(pid: int) -> str:
    """Return the process's state letter, `Z` for a zombie, or "" where there is none."""
    if HAS_PROC:
        return _stat_field(pid, 3)
    return _ps(pid, "state")[:1]


def started_at(pid: int) -> str:
    """Return a text that differs between two processes which had the same id, or "" where there is none."""
    if HAS_PROC:
        ticks = _stat_field(pid, 22)
        return f"{_boot_id()}:{ticks}" if ticks else ""
    return _ps(pid, "lstart")


def age_seconds() -> float:
    """Return how long this process has run, its start-up included; 0 where there is no /proc."""
    ticks = _stat_field(os.getpid(), 22)
    if not ticks:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


def command_line(pid: int) -> str:
    """Return the command with its arguments, or "" where it cannot be read."""
    if HAS_PROC:
        with suppress(OSError):
            return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return ""
    return _ps(pid, "command")


def runs(pid: int) -> bool:
    """Tell whether the process lives; a zombie does not."""
    return state(pid) not in GONE


def group_runs(group: int) -> bool:
    """Tell whether a process of the group is alive; zombies do not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, under another user
    if not HAS_PROC:
        return True
    members = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return any(_stat_field(pid, 5) == str(group) and runs(pid) for pid in members)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to every process of the group that is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def wait_until_gone(pids: Iterable[int], *, seconds: float) -> bool:
    """Wait for all processes to end; return whether they did in time."""
    end = time.monotonic() + seconds
    left = list(pids)
    while left := [pid for pid in left if runs(pid)]:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _stat_field(pid: int, number: int) -> str:
    """Read one field of /proc/PID/stat by its number in proc(5); the name before the third may hold anything."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
        return text.rsplit(")", 1)[1].split()[number - 3]
    except (OSError, IndexError):
        return ""


def _boot_id() -> str:
    with suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def _ps(pid: int, column: str) -> str:
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
