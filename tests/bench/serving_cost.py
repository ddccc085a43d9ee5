"""What a request costs, against the least it could cost, all measured in one run.

    uv run python -m tests.bench.serving_cost [--heuristics 1000] [--rate 20] [--seconds 20] [--json FILE] [--plot FILE]

Starts a throw-away PostgreSQL (fsync on), fills a project with generated approved lessons, and asks gunicorn as the
product runs it: POST /retrieve with tasks it has never seen and with tasks it knows, POST /trajectories. Beside them
stand the floor F (embed one task and one filtered top-20 statement, in one process, without a server) and the anchor A
(the same two behind gunicorn and one plain Django view). Several sizes draw latency against size. docs/performance.md
explains the columns.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HOME = Path(tempfile.mkdtemp(prefix="erl-bench-")).resolve()
for name in [*os.environ]:
    if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
        del os.environ[name]
os.environ |= {"ERL_HOME": str(HOME), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "erl_site.settings"}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402

from erl_site.embedded import postgres, valkey  # noqa: E402
from memory.models import Project  # noqa: E402
from memory.services.create_api_key import create_api_key  # noqa: E402
from tests.bench.serving.bench import ANCHORS, CALLS, Bench  # noqa: E402
from tests.bench.serving.report import draw_plot, print_report  # noqa: E402
from tests.bench.serving.seeding import seed_lessons  # noqa: E402


def measure_size(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fill a database of its own size and measure everything on it."""
    project = Project.objects.create(slug=f"bench-{count}", name=f"{count} lessons")
    print(f"Approving {count} lessons…", file=sys.stderr, flush=True)
    seed_lessons(project, count=count, with_tasks=not options.no_source_tasks)
    token = create_api_key(project, client="bench").token
    bench = Bench(home=HOME, project=project.pk, token=token, seconds=options.seconds, rounds=options.rounds)
    try:
        bench.start()
        return {"heuristics": count, **bench.measure(rate=options.rate, only=options.only)}
    finally:
        bench.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--heuristics", nargs="+", type=int, default=[1000], help="Approved lessons; several sizes.")
    parser.add_argument("--rate", type=float, default=20.0, help="Requests per second of the open loop, or 0.")
    parser.add_argument("--seconds", type=float, default=20.0, help="How long each figure is measured, all rounds.")
    parser.add_argument("--rounds", type=int, default=2, help="How often the calls take turns.")
    parser.add_argument("--only", nargs="+", choices=[call.name for call in (*ANCHORS, *CALLS)])
    parser.add_argument("--no-source-tasks", action="store_true", help="Lessons without the task they come from.")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    parser.add_argument("--plot", type=Path, help="Draw latency against size to this SVG file.")
    options = parser.parse_args()
    results = []
    try:
        postgres.ensure(HOME / "postgres", durable=True)
        valkey.ensure(HOME / "valkey")
        call_command("migrate", verbosity=0)
        for count in sorted(options.heuristics):
            results.append(measure_size(count, options))
            print_report(results[-1])
    finally:
        connections.close_all()
        postgres.discard(HOME / "postgres")
        valkey.discard(HOME / "valkey")
        shutil.rmtree(HOME, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.plot:
        draw_plot(results, options.plot)


if __name__ == "__main__":
    main()
