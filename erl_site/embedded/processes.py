"""Information about operating system processes, from /proc on Linux and `ps` elsewhere (macOS)."""

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
    """Return the process's state letter, `Z` for a zombie, or "" if there is no such process."""
    if HAS_PROC:
        return _stat_field(pid, 3)
    return _ps(pid, "state")[:1]


def started_at(pid: int) -> str:
    """Return a start time that tells apart processes with the same id, or "" if there is no such process."""
    if HAS_PROC:
        ticks = _stat_field(pid, 22)
        return f"{_boot_id()}:{ticks}" if ticks else ""
    return _ps(pid, "lstart")


def age_seconds() -> float:
    """Return how long this process has run, including its start; 0 without /proc."""
    ticks = _stat_field(os.getpid(), 22)
    if not ticks:
        return 0.0
    # Starts are counted from the boot, with the time that the machine was suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


def used_seconds(pid: int) -> float:
    """Return the processor time that a process and its descendants have used."""
    if HAS_PROC:
        table = {int(entry.name): _stat(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit()}
        ticks = os.sysconf("SC_CLK_TCK")
        # Fields 14 to 17 of proc(5): its own time, and that of children it has waited for
        rows = {member: (int(stat[1]), sum(map(int, stat[11:15])) / ticks) for member, stat in table.items() if stat}
    else:
        rows = {}
        for line in subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,time="],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines():
            member, parent, spent = line.split(maxsplit=2)
            rows[int(member)] = (int(parent), _read_time(spent))
    family, used = {pid}, 0.0
    while family:
        # A process that has ended meanwhile has no row.
        used += sum(rows[member][1] for member in family if member in rows)
        family = {member for member, (parent, _) in rows.items() if parent in family}
    return used


def command_line(pid: int) -> str:
    """Return the command with its arguments, or "" if it cannot be read."""
    if HAS_PROC:
        with suppress(OSError):
            return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return ""
    return _ps(pid, "command")


def runs(pid: int) -> bool:
    """Return whether the process is alive; a zombie is not."""
    return state(pid) not in GONE


def group_runs(group: int) -> bool:
    """Return whether any process of the group is alive; zombies do not count."""
    try:
        # Signal 0 only asks whether there is such a group.
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, but owned by another user
    if not HAS_PROC:
        return True
    members = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return any(_stat_field(pid, 5) == str(group) and runs(pid) for pid in members)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to all remaining processes of the group."""
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
    """Read a field of /proc/PID/stat by its number in proc(5), from 3; "" if there is no such process."""
    return "".join(_stat(pid)[number - 3 : number - 2])


def _stat(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat from the third on; the command name before may contain anything."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _read_time(text: str) -> float:
    """Read [[days-]hours:]minutes:seconds as `ps` writes them."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86_400 * int(days or 0)


def _boot_id() -> str:
    with suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def _ps(pid: int, column: str) -> str:
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
