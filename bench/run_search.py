"""How long a search of runs and their steps takes, and what its index costs.

    uv run python -m bench.run_search [--runs 50000]

Public runs are copied, each with a number of its own in its task and its steps, into a scratch database. Words that are
rare, usual and in every run are searched for in it through the page, as the field at the top of every page does.
"""

import argparse
import logging
import os
import statistics
import time

os.environ["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
import django  # isort: skip

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from tqdm import tqdm  # noqa: E402

from bench.retrieval_quality import scratch_database  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from memory.runs.models import Trajectory  # noqa: E402
from memory.runs.step_formats import normalise_steps  # noqa: E402
from tests.real_runs import load_all_runs  # noqa: E402

BATCH = 1_000
REPEATS = 15
QUERIES = ("run4711 order", "cancelled reservation", "get_reservation_details", "certificate refund polic", "the")


# A copy of each run in turn, with an id and a number of its own.
_COPY = """
INSERT INTO memory_trajectory SELECT copy.*
FROM generate_series(%(first)s, %(last)s) AS number
JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS total
      FROM memory_trajectory WHERE id = ANY(%(originals)s)) AS run ON run.place = number %% run.total
CROSS JOIN memory_trajectory AS original
CROSS JOIN LATERAL jsonb_populate_record(original, jsonb_build_object(
    'id', gen_random_uuid(), 'task', original.task || ' (' || number || ')',
    'steps', jsonb_set(original.steps, '{0,thought}', to_jsonb('run' || number || ' order'))
)) AS copy
WHERE original.id = run.id
"""


def fill(count: int) -> None:
    """Record public runs, and copy them until there are so many."""
    project = Project.objects.create(slug="search", name="Search")
    originals = Trajectory.objects.bulk_create(
        Trajectory(project=project, task=run["task"], steps=normalise_steps(run["steps"]), outcome="unknown")
        for run in load_all_runs()
    )
    ids = [run.pk for run in originals]
    with connection.cursor() as cursor:
        for first in tqdm(range(len(ids), count, BATCH), desc="runs", leave=False):
            last = min(first + BATCH, count) - 1
            cursor.execute(_COPY, {"first": first, "last": last, "originals": ids})
        # The planner's choice depends on statistics, which autovacuum makes later.
        cursor.execute("VACUUM ANALYZE memory_trajectory")


def measure(query: str) -> str:
    """Search through the page again and again."""
    client = Client()
    client.force_login(get_user_model().objects.get(username="root"))
    durations = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        answer = client.get("/admin/search/", {"q": query}, headers={"HX-Request": "true"})
        durations.append((time.perf_counter() - began) * 1000)
    hits = answer.content.decode().count("<li>")
    # The first one is left out: it imports templates.
    kept = sorted(durations[1:])
    return (
        f"{query:28} {hits:3} shown  p50 {statistics.median(kept):7.1f} ms  p95 {kept[int(0.95 * len(kept))]:7.1f} ms"
    )


def weigh() -> str:
    """Say how large the index is, and how long the words of a run take to make."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_relation_size('memory_trajectory_words'), pg_total_relation_size('memory_trajectory')"
        )
        index, table = cursor.fetchone()
        began = time.perf_counter()
        cursor.execute(
            "SELECT sum(length(memory_run_words(task, steps))) "
            "FROM (SELECT task, steps FROM memory_trajectory LIMIT 500) AS sample"
        )
    milliseconds = (time.perf_counter() - began) * 1000 / 500
    return f"index {index / 1e6:.0f} MB of {table / 1e6:.0f} MB in all; the words of one run take {milliseconds:.2f} ms"


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=50_000)
    options = parser.parse_args()
    with scratch_database():
        get_user_model().objects.create_superuser("root")
        fill(options.runs)
        print(f"{options.runs:,} runs; {weigh()}")
        for query in QUERIES:
            print(measure(query))


if __name__ == "__main__":
    main()
