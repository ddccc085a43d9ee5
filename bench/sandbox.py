"""Run the hostile programs and time calls of tools: `python -m bench.sandbox [monty | python]`.

As root the programs run three times: as root, as the user nobody, and as nobody under a filter like Docker's. As
another user they run as that user, without and with the filter.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from django.conf import settings

from runtime.sandbox import HostError, run_tool
from tests.runtime.calling import make_call

CALLS = {"monty": 2_000, "python": 200}  # CPython starts for each
LEVELS: dict[str, list[str]] = {
    "as root": [],
    "as nobody": ["--user", "nobody"],
    "as nobody, filtered": ["--user", "nobody", "--filter"],
}
OWN_LEVELS: dict[str, list[str]] = {"as this user": [], "as this user, filtered": ["--filter"]}


def run_programs(runtime: str, arguments: list[str]) -> tuple[int, list[str]]:
    """Run the hostile programs, and return how many ran and what was reached."""
    command = [sys.executable, "-m", "tests.runtime.hostile_host", "--runtime", runtime, *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    attempts = [json.loads(line) for line in done.stdout.splitlines()]
    return len(attempts), [f"{attempt['name']}: {attempt['reached']}" for attempt in attempts if attempt["reached"]]


def time_calls(source: str, count: int, runtime: str) -> list[float]:
    """Return the milliseconds of each call, the whole way there and back."""

    def get_order(order_id: str) -> dict[str, float]:
        if order_id != "A1":
            raise HostError("no such order")
        return {"total": 150.0}

    call = make_call(source, runtime=runtime, order_id="A1")
    spent = []
    for _ in range(count):
        started = time.perf_counter()
        run_tool(call, {"get_order": get_order})
        spent.append(1000 * (time.perf_counter() - started))
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runtime", nargs="?", choices=sorted(CALLS), default="monty")
    runtime = parser.parse_args().runtime
    settings.configure(SECRET_KEY="x" * 50, SECRET_KEY_FALLBACKS=[])
    reached = 0
    for name, arguments in (LEVELS if os.geteuid() == 0 else OWN_LEVELS).items():
        count, results = run_programs(runtime, arguments)
        reached += len(results)
        print(f"{name}: {count} programs, {len(results)} reached a file, the network, the environment or a sibling")
        for result in results:
            print(f"  {result}")
    plain = "def tool(order_id: str) -> str:\n    return order_id.lower()"
    asking = "def tool(order_id: str) -> float:\n    return get_order(order_id)['total'] * 2"
    # Timed on its own, as it loads what later calls find in memory.
    first = time_calls(plain, 1, runtime)[0]
    print(f"first call: {first:.1f} ms")
    for name, source in (("call", plain), ("call with one host function", asking)):
        spent = sorted(time_calls(source, CALLS[runtime], runtime))
        p99 = spent[int(0.99 * len(spent))]
        print(f"{name}, warm: median {statistics.median(spent):.2f} ms, p99 {p99:.2f} ms")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    sys.exit(1 if reached else 0)


if __name__ == "__main__":
    main()
