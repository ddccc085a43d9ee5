"""How soon a quickstart is ready, and how much memory all of it takes at rest.

    uv run python -m bench.quickstart [--seconds 60] [--port 8790]

Starts `uv run manage.py quickstart` with an empty home, lets it go through its sample, and waits. Memory is the sum of
`Pss` in /proc/PID/smaps_rollup (shared pages divided among those that share them) over `uv`, the command, everything
it has forked, PostgreSQL and Valkey.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from erl_site.embedded import valkey

ROOT = Path(__file__).resolve().parent.parent


def find_processes(command: int, home: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Return all processes of a quickstart, each with the part it belongs to."""
    postmaster = int((home / "postgres/data/postmaster.pid").read_text().split()[0])
    broker = valkey.process_id(home / "valkey")
    for name, pid in (("command and forks", command), ("PostgreSQL", postmaster), ("Valkey", broker)):
        leader = psutil.Process(pid)
        # PostgreSQL and the broker are no children of the command, so each is found by its own id.
        for process in (leader, *leader.children(recursive=True)):
            yield name, process


def wait_until_ready(url: str, *, since: float) -> float:
    """Wait for /ready; return the seconds it took."""
    while True:
        try:
            # A proxy in the environment would be asked for loopback.
            if httpx.get(f"{url}/ready", timeout=1, trust_env=False).status_code == 200:
                return time.monotonic() - since
        except httpx.HTTPError:
            time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="How long it rests before memory is counted.")
    parser.add_argument("--port", type=int, default=8790)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="erl-quickstart-"))
    environment = os.environ | {"ERL_HOME": str(home)}
    command = ["uv", "run", "manage.py", "quickstart", "--port", str(options.port)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=sys.stderr) as quickstart:
        try:
            seconds = wait_until_ready(f"http://127.0.0.1:{options.port}", since=time.monotonic())
            time.sleep(options.seconds)
            parts: dict[str, list[float]] = {}
            for name, process in find_processes(quickstart.pid, home):
                parts.setdefault(name, []).append(process.memory_full_info().pss / 2**20)
        finally:
            quickstart.send_signal(signal.SIGINT)
    print(f"/ready after {seconds:.1f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for name, sizes in parts.items():
        print(f"{name:<18} {sum(sizes):4.0f} MB in {len(sizes)} processes, the largest {max(sizes):.0f}")
    print(f"{'all':<18} {sum(map(sum, parts.values())):4.0f} MB")


if __name__ == "__main__":
    main()
