"""What a request costs, against the least it could cost, all measured in one run.

    uv run python -m bench.serving_cost [--heuristics 1000] [--rates 50 100 200] [--seconds 20]
        [--home FOLDER] [--json FILE] [--plot FILE] [--against CHECKOUT] [--peers FOLDER]

Starts a PostgreSQL of its own (fsync on), fills projects of 50 to 1% of the lessons, builds the index of the largest
if it is worth one, and asks about it gunicorn as the product runs it: POST /retrieve with tasks it has never seen and
with tasks it knows, POST /trajectories. Beside them stand the floor F (embed one task in floats and one filtered top-20
statement, in one process, without a server) and the anchor A (the same two behind gunicorn and one plain Django view).
Several sizes draw latency against size. With --home the filled database is kept and used by the next run.
docs/performance.md explains the columns. With --peers mem0 and LangGraph's store search the same lessons
(bench/serving/peers.py says how to install them). With --against the product of another checkout is measured in
turns with this one, each on a database of its own: CPU and p50 of new and known tasks, against F and against each
other. No ratio is printed of answers that failed.
"""

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

_KEPT = next((Path(sys.argv[place + 1]) for place, word in enumerate(sys.argv[:-1]) if word == "--home"), None)
HOME = (_KEPT or Path(tempfile.mkdtemp(prefix="erl-bench-"))).resolve()
HOME.mkdir(parents=True, exist_ok=True)
for name in [*os.environ]:
    if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
        del os.environ[name]
os.environ |= {"ERL_HOME": str(HOME), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "erl_site.settings"}

import django  # noqa: E402

django.setup()

from django.apps import apps  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, connections  # noqa: E402
from psycopg.conninfo import make_conninfo  # noqa: E402

from bench.serving.bench import ANCHORS, CALLS, Bench  # noqa: E402
from bench.serving.bulk import seed_shares  # noqa: E402
from bench.serving.pair import compare, print_comparison  # noqa: E402
from bench.serving.peers import NAMES, Peer  # noqa: E402
from bench.serving.report import draw_plot, print_report  # noqa: E402
from erl_site.embedded import postgres, valkey  # noqa: E402
from memory.retrieval.database_search import INDEX_FROM_TEXTS  # noqa: E402
from memory.tasks import tune_retrieval  # noqa: E402
from tests.administrator import become_administrator  # noqa: E402

SEARCHED = ("Heuristic", "HeuristicRevision", "HeuristicEmbedding", "TermCount")


def memory_settings(share: int = 3) -> tuple[str, ...]:
    """Return the settings of a PostgreSQL that has a third of the machine's memory, or a smaller share."""
    megabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (share * 1_000_000)
    return (f"shared_buffers={megabytes}MB", "max_wal_size=8GB", "shared_memory_type=mmap", "jit=off")


def start_servers() -> None:
    """Start the database and the broker, with the tables of this version."""
    postgres.ensure(HOME / "postgres", durable=True, settings=memory_settings())
    valkey.ensure(HOME / "valkey")
    call_command("migrate", verbosity=0)
    become_administrator()


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
        # Otherwise the first searches would measure the disk.
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        cursor.execute(
            "SELECT sum(pg_prewarm(part)) FROM pg_class t, LATERAL (SELECT t.oid UNION ALL"
            " SELECT indexrelid FROM pg_index WHERE indrelid = t.oid) parts (part) WHERE t.relname = ANY(%s)",
            [[apps.get_model(f"memory.{name}")._meta.db_table for name in SEARCHED]],
        )


def fill(count: int) -> Any:
    """Return the largest project of a size, with an index if it is worth one."""
    project = seed_shares(count=count)
    tune_retrieval()
    return project


def make_key(project: Any) -> str:
    out = io.StringIO()
    call_command("create_api_key", project=project.slug, client="bench", json=True, stdout=out)
    key: str = json.loads(out.getvalue())["api_key"]
    return key


def start_peers(project: Any, packages: Path) -> dict[str, Peer]:
    """Give mem0 and LangGraph's store the lessons that the project serves."""
    served = apps.get_model("memory.HeuristicRevision").objects.filter(project=project, served=True)
    lessons = ["\n".join(texts) for texts in served.values_list("trigger", "guideline", "avoid")]
    settings = connection.settings_dict
    names = {"host": settings["HOST"], "port": settings["PORT"], "user": settings["USER"], "dbname": settings["NAME"]}
    url = make_conninfo(**names)
    print(f"Storing {len(lessons):,} lessons in each peer…", file=sys.stderr, flush=True)
    return {name: Peer(name, url=url, packages=packages.resolve(), lessons=lessons) for name in NAMES}


def measure_size(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fill the projects of one size and measure everything on the largest of them."""
    project = fill(count)
    read_into_memory()
    bench = Bench(
        home=HOME, project=project.pk, token=make_key(project), seconds=options.seconds, rounds=options.rounds
    )
    try:
        bench.start()
        bench.warm_up(options.warm_up)
        if options.peers:
            bench.peers = start_peers(project, options.peers)
        measured = bench.measure(rates=options.rates, only=options.only)
    finally:
        bench.stop()
    texts = apps.get_model("memory.SearchStatistics").objects.get(project=project).texts
    return {
        "heuristics": count,
        # Each lesson has two texts: its own words, and the task it was learnt from.
        "asked": texts // 2,
        "searched": "with an index" if texts >= INDEX_FROM_TEXTS else "without an index",
        **measured,
    }


def compare_checkouts(options: argparse.Namespace) -> None:
    """Measure this checkout and another in turns; short turns, so that both meet the same load of the machine."""
    try:
        result = compare(
            options.against,
            home=HOME,
            lessons=options.heuristics[0],
            seconds=options.seconds,
            rounds=max(options.rounds, 5),
            settings=memory_settings(share=6),
        )
    finally:
        if options.home is None:
            shutil.rmtree(HOME, ignore_errors=True)
    print_comparison(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--heuristics", "--lessons", nargs="+", type=int, default=[1000], help="Approved lessons; several sizes."
    )
    parser.add_argument("--rates", nargs="+", type=float, default=[20.0], help="Requests per second, open loop, or 0.")
    parser.add_argument("--seconds", type=float, default=20.0, help="How long each figure is measured, all rounds.")
    parser.add_argument("--warm-up", type=float, default=5.0, help="Seconds of new tasks before anything is measured.")
    parser.add_argument("--rounds", type=int, default=2, help="How often the calls take turns.")
    parser.add_argument("--only", nargs="+", choices=[call.name for call in (*ANCHORS, *CALLS)])
    parser.add_argument("--home", type=Path, help="Keep the database in this folder, or use the one that is there.")
    parser.add_argument("--fill", action="store_true", help="Only fill the database under --home, for a later run.")
    parser.add_argument("--against", type=Path, help="Another checkout to compare this one with, at the first size.")
    parser.add_argument("--peers", type=Path, help="Also measure mem0 and LangGraph's store, installed in this folder.")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    parser.add_argument("--plot", type=Path, help="Draw latency against size to this SVG file.")
    options = parser.parse_args()
    if options.against:
        compare_checkouts(options)
        return
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
