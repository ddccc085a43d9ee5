"""What a request costs, against the least it could cost, all measured in one run.

    uv run python -m tests.bench.serving_cost [--heuristics 1000] [--rates 50 100 200] [--seconds 20]
        [--home FOLDER] [--json FILE] [--plot FILE]

Starts a PostgreSQL of its own (fsync on), fills projects of 50 to 1 % of the lessons, builds the index of the largest
if it is worth one, and asks about it gunicorn as the product runs it: POST /retrieve with tasks it has never seen and
with tasks it knows, POST /trajectories. Beside them stand the floor F (embed one task and one filtered top-20
statement, in one process, without a server) and the anchor A (the same two behind gunicorn and one plain Django view).
Several sizes draw latency against size. With --home the filled database is kept and used by the next run.
docs/performance.md explains the columns.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_KEPT = next((Path(sys.argv[place + 1]) for place, word in enumerate(sys.argv[:-1]) if word == "--home"), None)
HOME = (_KEPT or Path(tempfile.mkdtemp(prefix="erl-bench-"))).resolve()
HOME.mkdir(parents=True, exist_ok=True)
_INTEGERS = "1" if "--integers" in sys.argv else "0"
for name in [*os.environ]:
    if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
        del os.environ[name]
os.environ |= {"ERL_HOME": str(HOME), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "erl_site.settings"}
os.environ["ERL_EMBEDDER_INTEGERS"] = _INTEGERS

import django  # noqa: E402

django.setup()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, connections  # noqa: E402

from erl_site.embedded import postgres, valkey  # noqa: E402
from memory.heuristics.models import Heuristic, HeuristicRevision  # noqa: E402
from memory.index.tuning import measure_recall, tune_search  # noqa: E402
from memory.projects.api_keys import create_api_key  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from memory.retrieval.models import HeuristicEmbedding, SearchIndex, SearchStatistics, TermCount  # noqa: E402
from memory.retrieval.snapshot import BYTES_EACH_TEXT  # noqa: E402
from tests.bench.serving.bench import ANCHORS, CALLS, Bench  # noqa: E402
from tests.bench.serving.bulk import seed_shares  # noqa: E402
from tests.bench.serving.report import draw_plot, print_report  # noqa: E402


def start_servers() -> None:
    """Start the database and the broker, with the tables of this version."""
    megabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 3_000_000  # a third of the machine's memory
    memory = (f"shared_buffers={megabytes}MB", "max_wal_size=8GB", "shared_memory_type=mmap", "jit=off")
    postgres.ensure(HOME / "postgres", durable=True, settings=memory)
    valkey.ensure(HOME / "valkey")
    call_command("migrate", verbosity=0)


def stop_servers(*, keep: bool) -> None:
    """Stop them; throw away what they hold unless it is to be kept."""
    connections.close_all()
    if keep:
        postgres.stop(HOME / "postgres")
        valkey.stop(HOME / "valkey")
    else:
        postgres.discard(HOME / "postgres")
        valkey.discard(HOME / "valkey")
        shutil.rmtree(HOME, ignore_errors=True)


def read_into_memory() -> None:
    """Let PostgreSQL hold what is searched, as one that has run for a while does; it was started a moment ago."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        cursor.execute(
            "SELECT sum(pg_prewarm(part)) FROM pg_class t, LATERAL (SELECT t.oid UNION ALL"
            " SELECT indexrelid FROM pg_index WHERE indrelid = t.oid) parts (part) WHERE t.relname = ANY(%s)",
            [[model._meta.db_table for model in (Heuristic, HeuristicRevision, HeuristicEmbedding, TermCount)]],
        )


def fill(count: int) -> tuple[Project, SearchIndex | None, float]:
    """Return the largest project of a size, its index if it is worth one, and the seconds it took to see to it."""
    project = seed_shares(count=count)
    started = time.monotonic()
    index = tune_search(project)
    return project, index, time.monotonic() - started


def measure_size(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fill the projects of one size and measure everything on the largest of them."""
    project, index, built = fill(count)
    read_into_memory()
    texts = SearchStatistics.objects.get(project=project).texts
    in_memory = texts * BYTES_EACH_TEXT <= settings.ERL_RETRIEVE_MEMORY_MB * 1_000_000
    token = create_api_key(project, client="bench").token
    bench = Bench(home=HOME, project=project.pk, token=token, seconds=options.seconds, rounds=options.rounds)
    try:
        bench.start()
        bench.warm_up(options.warm_up)
        measured = bench.measure(rates=options.rates, only=options.only)
    finally:
        bench.stop()
    recall = measure_recall(index, tasks=options.recall_tasks) if index and options.recall_tasks else None
    way = "the index" if index else "everything in the database"
    result = {
        "heuristics": count,
        "asked": texts // 2,
        "integers": options.integers,
        "searched": "in memory" if in_memory else f"by {way}" if index else way,
        "index_seconds": round(index.build_seconds if index else built, 1),
        **measured,
    }
    if recall is not None:
        result |= {"recall_mean": recall.mean, "recall_least": recall.least, "recall_tasks": recall.tasks}
        print(f"Recall@20 on {recall.tasks} tasks: {recall.mean:.3f} in the mean, {recall.least:.2f} at least.")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--heuristics", nargs="+", type=int, default=[1000], help="Approved lessons; several sizes.")
    parser.add_argument("--rates", nargs="+", type=float, default=[20.0], help="Requests per second, open loop, or 0.")
    parser.add_argument("--seconds", type=float, default=20.0, help="How long each figure is measured, all rounds.")
    parser.add_argument("--warm-up", type=float, default=5.0, help="Seconds of new tasks before anything is measured.")
    parser.add_argument("--rounds", type=int, default=2, help="How often the calls take turns.")
    parser.add_argument("--only", nargs="+", choices=[call.name for call in (*ANCHORS, *CALLS)])
    parser.add_argument("--recall-tasks", type=int, default=50, help="Tasks to measure the index's recall on.")
    parser.add_argument(
        "--integers",
        action="store_true",
        help="The product embeds in 8 bits, F and A do not; not with a --home that was filled without.",
    )
    parser.add_argument("--home", type=Path, help="Keep the database in this folder, or use the one that is there.")
    parser.add_argument("--fill", action="store_true", help="Only fill the database under --home, for a later run.")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    parser.add_argument("--plot", type=Path, help="Draw latency against size to this SVG file.")
    options = parser.parse_args()
    results = []
    try:
        start_servers()
        for count in sorted(options.heuristics):
            if options.fill:
                fill(count)
                continue
            results.append(measure_size(count, options))
            print_report(results[-1])
    finally:
        stop_servers(keep=options.home is not None)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.plot:
        draw_plot(results, options.plot)


if __name__ == "__main__":
    main()
