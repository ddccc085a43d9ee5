"""Which gunicorn settings answer most: processes, threads, preloading, worker class, kept connections.

    uv run python -m bench.gunicorn_settings --home FOLDER [--heuristics 1000] [--seconds 6] [--rounds 2]
        [--only "2 x 4" …]

Uses the database that `serving_cost --home FOLDER --fill` has filled. Each round starts gunicorn again with each of the
settings, in turns, and lets 8 clients ask POST /retrieve as fast as they get answers: tasks it knows and new ones. CPU
is that of the web processes and PostgreSQL for each request, memory that of all web processes together, shared pages
counted once.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

if "--home" not in sys.argv:
    raise SystemExit(__doc__)

from bench.serving_cost import HOME, fill, make_key, start_servers, stop_servers  # isort: skip  # sets Django up
from bench.serving.bench import CALLS, Bench, merge
from bench.serving.processes import read_shared_memory_mb

CLIENTS = 8
STOCK = "--worker-class=asgi"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """How gunicorn is started."""

    processes: int
    threads: int
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join([f"{self.processes} x {self.threads}", *self.options])


SETTINGS = (
    Setting(processes=1, threads=4),
    Setting(processes=1, threads=8),
    Setting(processes=2, threads=1),
    Setting(processes=2, threads=2),
    Setting(processes=2, threads=4),
    Setting(processes=2, threads=8),
    Setting(processes=3, threads=2),
    Setting(processes=3, threads=4),
    Setting(processes=2, threads=4, options=("--preload",)),
    Setting(processes=2, threads=4, options=(STOCK,)),
    Setting(processes=2, threads=4, options=("--keep-alive=0",)),
    Setting(processes=2, threads=4, options=("--backlog=64",)),
)


def measure(setting: Setting, *, project: UUID, token: str, seconds: float) -> dict[str, dict[str, Any]]:
    """Start gunicorn and return the figures of each call."""
    bench = Bench(home=HOME, project=project, token=token, seconds=seconds, rounds=1)
    try:
        bench.start_product(processes=setting.processes, threads=setting.threads, options=setting.options)
        parts = {call.name: bench.ask(call, clients=CLIENTS) for call in CALLS if not call.runs}
        memory = read_shared_memory_mb(bench.workers("product"))
    finally:
        bench.stop()
    return {name: part | {"memory_mb": memory} for name, part in parts.items()}


def write_row(setting: str, call: str, parts: list[dict[str, Any]]) -> str:
    """Write what was measured of one call with one setting as a row of the table."""
    # The most of all rounds: memory is what has to be there at the worst time.
    row, memory = merge(parts), max(part["memory_mb"] for part in parts)
    cpu = f"{row['web_ms']:.1f} + {row['postgres_ms']:.1f}"
    figures = [f"{row['per_second']:.0f}", f"{row['p50_ms']:.0f}", f"{row['p99_ms']:.0f}", cpu, str(row["refused"])]
    return f"| {setting} | {call.removeprefix('POST /retrieve ')} | {' | '.join(figures)} | {memory:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, required=True, help="The folder of a filled database.")
    parser.add_argument("--heuristics", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=6.0, help="How long each figure is measured in a round.")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=[setting.name for setting in SETTINGS])
    options = parser.parse_args()
    settings = [setting for setting in SETTINGS if not options.only or setting.name in options.only]
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    try:
        start_servers()
        project = fill(options.heuristics)
        token = make_key(project)
        for _ in range(options.rounds):
            # In turns within a round, so that a machine that slows down slows all of them.
            for setting in settings:
                figures = measure(setting, project=project.pk, token=token, seconds=options.seconds)
                for name, part in figures.items():
                    parts.setdefault((setting.name, name), []).append(part)
                    print(write_row(setting.name, name, [part]), file=sys.stderr)
    finally:
        stop_servers(keep=True)
    print("| processes x threads | call | answered/s | p50 ms | p99 ms | CPU ms, web + PostgreSQL | turned away | MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for (setting_name, call), found_parts in parts.items():
        print(write_row(setting_name, call, found_parts))
    print(f"\nLoad average: {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
