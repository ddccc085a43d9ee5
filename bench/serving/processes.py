"""What processes use: time on a processor, from the kernel's scheduler, and memory."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def read_cpu_seconds(pids: Iterable[int]) -> float:
    """Return the seconds that all threads of these processes were on a processor (`schedstat`, in ns).

    Those of children that have ended count, too (to a hundredth of a second): a connection may close between two calls.
    """
    total = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            ended = psutil.Process(pid).cpu_times()
            total += 1e9 * (ended.children_user + ended.children_system)
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                total += int(task.read_text().split()[0])
    return total / 1e9


def read_memory_mb(pids: Iterable[int]) -> tuple[float, float]:
    """Return the largest resident set among the processes and the largest share of memory that is their own (PSS)."""
    resident = proportional = 0.0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            sizes = {name: int(rest.split()[0]) / 1024 for name, rest in (line.split(":") for line in lines)}
            resident, proportional = max(resident, sizes["Rss"]), max(proportional, sizes["Pss"])
    return resident, proportional


def read_shared_memory_mb(pids: Iterable[int]) -> float:
    """Return the memory of processes together: what they share is counted once (the sum of their PSS)."""
    return sum(read_memory_mb([pid])[1] for pid in pids)


def children(pid: int) -> list[int]:
    """Return a process and all below it."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    return []
