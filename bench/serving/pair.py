"""Two checkouts measured in turns, in one run, on the same tasks.

The other checkout is only used from outside, as its layout and its tables may differ: its own benchmark fills its own
database, its own command makes the key, its own tree serves.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import time_ns
from typing import Any
from uuid import UUID

import psycopg

from bench.serving.bench import CALLS, Bench, merge
from erl_site.embedded import postgres, valkey
from tests.stack import ROOT

COMPARED = tuple(call for call in CALLS if not call.runs)
HEAD = ("tasks", "figure", "F", "this", "other", "this/F", "other/F", "this/other")
WIDTHS = (7, 7, 7, 7, 7, 7, 8, 10)
Settings = tuple[str, ...]  # of a PostgreSQL, name=value


def compare(
    other: Path, *, home: Path, lessons: int, seconds: float, rounds: int, settings: Settings
) -> dict[str, Any]:
    """Fill and start both, ask new and known tasks of one after the other, and return the figures of all.

    Raises:
        SystemExit: a checkout could not be filled, or an answer was not 2xx.
    """
    roots = {"this": ROOT, "other": other.resolve()}
    seed, benches = time_ns(), dict[str, Bench]()
    try:
        # Both at once: embedding takes the most time.
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: _fill(roots[name], home / name, lessons=lessons), roots))
        for name, root in roots.items():
            benches[name] = bench = _prepare(root, home / name, lessons=lessons, settings=settings)
            bench.seconds, bench.rounds, bench._seeds = seconds, rounds, count(seed)
            bench.start_product()
            bench.warm_up(2.0)
        return _measure(benches, rounds=rounds) | {"lessons": lessons, "load_average": os.getloadavg()}
    finally:
        for bench in benches.values():
            bench.stop()
        for name in roots:
            postgres.stop(home / name / "postgres")
            valkey.stop(home / name / "valkey")


def _fill(root: Path, home: Path, *, lessons: int) -> None:
    """Fill a database with so many lessons, half of them in the project that is asked."""
    home.mkdir(parents=True, exist_ok=True)
    print(f"Filling the database of {root}…", file=sys.stderr, flush=True)
    fill = ["-m", "bench.serving_cost", "--home", str(home), "--heuristics", str(lessons), "--fill"]
    _run(root, home, *fill)


def _prepare(root: Path, home: Path, *, lessons: int, settings: Settings) -> Bench:
    """Start the database and the broker of a checkout and return its bench."""
    url = postgres.ensure(home / "postgres", durable=True, settings=settings)
    valkey.ensure(home / "valkey")
    slug = f"bench-{lessons}-0"
    key = json.loads(_run(root, home, "manage.py", "create_api_key", "--project", slug, "--client", "bench", "--json"))
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT id FROM memory_project WHERE slug = %s", [slug]).fetchone()
    assert row is not None
    return Bench(home=home, root=root, token=key["api_key"], project=UUID(str(row[0])), seconds=0.0, rounds=1)


def _run(root: Path, home: Path, *arguments: str) -> str:
    # The other checkout must not import modules of this one.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"ERL_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed in {root}:\n{done.stderr[-3000:]}")
    return done.stdout


def _measure(benches: dict[str, Bench], *, rounds: int) -> dict[str, Any]:
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    floors = []
    for number in range(rounds):
        # Each of the two goes first in every other round.
        order = [*benches.items()][:: -1 if number % 2 else 1]
        floors.append(benches["this"].measure_floor())
        next(benches["other"]._seeds)  # as the floor took one of the first, so that both answer the same tasks
        for call in COMPARED:
            for name, bench in order:
                part = bench.ask(call, clients=1)
                # Refusals are cheap, so they would make the busier one look faster.
                if part["refused_ms"]:
                    raise SystemExit(f"{name} turned requests away (503): the machine is too busy to compare them.")
                parts.setdefault((call.tasks, name), []).append(part)
    rows = {tasks: {name: merge(parts[tasks, name]) for name in benches} for tasks, _ in parts}
    return {"floor": merge(floors), "rows": rows}


def print_comparison(result: dict[str, Any]) -> None:
    """Print CPU and p50 of new and of known tasks in ms, against F and against the other checkout."""
    load = " ".join(f"{value:.1f}" for value in result["load_average"])
    print(f"\n{result['lessons']:,} approved lessons, 1 client, CPU of web and PostgreSQL; load {load}")
    _print_line(*HEAD)
    for tasks, times in result["rows"].items():
        for label, name in (("CPU ms", "cpu_ms"), ("p50 ms", "p50_ms")):
            floor, this, other = (row[name] for row in (result["floor"], times["this"], times["other"]))
            figures = (floor, this, other, this / floor, other / floor, this / other)
            _print_line(tasks, label, *(f"{figure:.2f}" for figure in figures))


def _print_line(*texts: str) -> None:
    print("  ".join(text.ljust(width) for text, width in zip(texts, WIDTHS, strict=True)), flush=True)
