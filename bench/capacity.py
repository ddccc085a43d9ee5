"""Check the plan of `manage.py plan_capacity` against this machine, and measure the bytes of rows.

    uv run python -m bench.capacity [--lessons 300 1000 3000] [--seconds 6] [--home FOLDER]

For each size it measures the floor F and one client's requests of each kind, and compares their CPU with what the plan
expects: its figures times the ratio of the two floors, since another machine is faster or slower. A ratio outside
0.8 to 1.2 ends the run with an error.
"""

import argparse

from bench.serving_cost import HOME, fill, make_key, start_servers, stop_servers  # first: it sets the environment

from django.db import connection  # isort: skip

from bench.serving.bench import CALLS, Bench
from erl_site.capacity.plan import find_cost, find_floor, read_figures

KINDS = dict(zip(("new", "known", "run"), CALLS, strict=True))
TOLERANCE = 0.2


def measure(lessons: int, *, seconds: float) -> dict[str, float]:
    """Return the CPU of a request of each kind in units of F, measured over expected."""
    project, figures = fill(lessons), read_figures()
    bench = Bench(home=HOME, project=project.pk, token=make_key(project), seconds=seconds, rounds=1)
    try:
        bench.start_product()
        bench.warm_up(2)
        floor = bench.measure_floor()["cpu_ms"]
        measured = {kind: bench.ask(call, clients=1)["cpu_ms"] / floor for kind, call in KINDS.items()}
    finally:
        bench.stop()
    expected_floor = find_floor(figures, lessons=lessons)
    expected = {
        kind: sum(find_cost(figures, kind=kind, server=server, lessons=lessons) for server in ("web", "database"))
        for kind in KINDS
    }
    return {kind: measured[kind] / (expected[kind] / expected_floor) for kind in KINDS}


def measure_bytes(table: str) -> float:
    """Return the bytes of a row with its part of the indexes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(pg_total_relation_size(relid))::float FROM pg_partition_tree(%s)", [table])
        (size,) = cursor.fetchone()
        cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
        (count,) = cursor.fetchone()
        return float(size / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lessons", nargs="+", type=int, default=[300, 1000, 3000], help="Approved lessons.")
    parser.add_argument("--seconds", type=float, default=6.0, help="How long each figure is measured.")
    parser.add_argument("--home", help="Keep the database in this folder.")
    options = parser.parse_args()
    far: list[str] = []
    try:
        start_servers()
        for lessons in sorted(options.lessons):
            ratios = measure(lessons, seconds=options.seconds)
            print(f"{lessons:9,} lessons, measured over planned:", *(f"{kind} {ratios[kind]:.2f}" for kind in ratios))
            far += [f"{kind} at {lessons:,}" for kind, ratio in ratios.items() if abs(ratio - 1) > TOLERANCE]
        for name, table in (("answer", "memory_retrieval"), ("run", "memory_trajectory")):
            print(f"{name}: {measure_bytes(table):,.0f} bytes a row with indexes")
    finally:
        stop_servers(keep=options.home is not None)
    if far:
        raise SystemExit(f"More than {TOLERANCE:.0%} from the plan: {', '.join(far)}.")


if __name__ == "__main__":
    main()
