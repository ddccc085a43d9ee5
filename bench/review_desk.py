"""How fast the review desk is: real proposals decided by keyboard in a real browser, in a full database.

    uv run python -m bench.review_desk [--data DIR] [--decisions 30] [--lessons 10000] [--runs 50000] [--json]
    uv run python -m bench.review_desk --decisions 3 --lessons 20 --runs 50 --answers 20   # the smallest

Starts a throw-away database and web server and fills them. The lessons to decide on are those that the offline
reflector proposes from the runs in the files trajectories.jsonl below DIR (tests/data without --data), and those that
it proposed for other agents. They are decided by keyboard alone: approve, approve, reject with a reason, over and over.
What is timed is machine time, in the browser: from the key press that decides to the first frame of the next item in
the inbox. Before each key it waits as long as the quickest reader would. Then it counts the requests of a page on a
warm cache and the queries of each page.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

HOME = Path(tempfile.mkdtemp(prefix="erl-bench-")).resolve()
os.environ |= {
    "ERL_HOME": str(HOME),
    "TEST_EMBEDDED_DURABLE": "0",
    "ERL_ENV_FILE": os.devnull,
    "ERL_REFLECTOR": "rules",
    "ERL_LESSONS_PER_TRAJECTORY": "3",
    "ERL_LOG_LEVEL": "ERROR",
    "DJANGO_SETTINGS_MODULE": "tests.settings",
}

import django  # noqa: E402

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.utils import timezone  # noqa: E402

from bench.desk_timing import Measured, measure_decisions  # noqa: E402
from bench.serving import bulk  # noqa: E402
from bench.serving.processes import children, read_cpu_seconds  # noqa: E402
from erl_site.embedded import postgres  # noqa: E402
from memory.curation.evidence import add_evidence  # noqa: E402
from memory.curation.proposals import propose_heuristic  # noqa: E402
from memory.heuristics.models import Heuristic, HeuristicRevision  # noqa: E402
from memory.heuristics.text import Citation, HeuristicText  # noqa: E402
from memory.intake.files import read_entries  # noqa: E402
from memory.intake.recording import record_trajectory  # noqa: E402
from memory.projects.actors import Actor  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from memory.retrieval.models import Retrieval  # noqa: E402
from memory.review.models import Review  # noqa: E402
from memory.runs.models import Trajectory  # noqa: E402
from reflection.jobs.execution import Outcome  # noqa: E402
from reflection.reflectors.reflections import run_reflection  # noqa: E402
from tests.administrator import become_administrator  # noqa: E402
from tests.e2e.browser import find_chromium, open_browser  # noqa: E402
from tests.stack import Stack  # noqa: E402

DATA = Path(__file__).parents[1] / "tests" / "data"
PROPOSALS = Path(__file__).parent / "verdicts" / "proposals-7.jsonl"
REVIEWER, PASSWORD = "ana", "correct horse battery"
REAL_VECTORS = 200  # the rest are mixtures of these: embedding 10,000 lessons would take the time, not deciding
SAMPLED_RUNS = 400

# Runs and answers as many as asked for, copied from the real ones with other ids, spread over eight weeks.
COPY_RUNS = """
INSERT INTO memory_trajectory ({columns})
SELECT {values} FROM generate_series(1, %s) n
JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM memory_trajectory) t
  ON t.place = n %% (SELECT count(*) FROM memory_trajectory)
"""
LINK_RUNS = """
UPDATE memory_trajectory t SET retrieval_id = r.id
FROM (SELECT id, row_number() OVER () AS place FROM memory_retrieval) r,
     (SELECT id, row_number() OVER () AS place FROM memory_trajectory) s
WHERE r.place = s.place AND t.id = s.id
"""


def fill(options: argparse.Namespace) -> Project:
    """Make a project with lessons, runs, answers and decisions, and real proposals on top."""
    call_command("migrate", verbosity=0)
    become_administrator()
    project = Project.objects.create(slug="bench", name="Bench", reflect_on_record=True)
    user = get_user_model()._default_manager.create_superuser(REVIEWER, password=PASSWORD)
    assert user.pk
    bulk.REAL_LESSONS = REAL_VECTORS
    bulk.seed_many(project, count=options.lessons)
    real = _record_real_runs(project, options.data)
    while run_reflection(owner="bench").outcome is not Outcome.NOTHING:
        pass
    _propose_real_lessons(project)
    with connection.cursor() as cursor:
        columns = [field.column for field in Trajectory._meta.local_concrete_fields if not field.generated]
        fresh = {
            "id": "gen_random_uuid()",
            "external_id": "'copy-' || n",
            "created_at": "now() - random() * interval '56 days'",
        }
        values = ", ".join(fresh.get(name, f"t.{name}") for name in columns)
        cursor.execute(COPY_RUNS.format(columns=", ".join(columns), values=values), [options.runs - real])
    _record_answers_and_reviews(project, options.answers)
    with connection.cursor() as cursor:
        cursor.execute(LINK_RUNS)
        cursor.execute("VACUUM ANALYZE")
    return project


def _record_answers_and_reviews(project: Project, answers: int) -> None:
    """Record answers and an approval of every lesson in use, spread over eight weeks."""
    chance, now = random.Random(2), timezone.now()
    served = list(HeuristicRevision.objects.filter(served=True))
    asked = {"mode": "hybrid", "top_k": 5, "budget_tokens": 1000, "task_id": "airline", "agent": "bot"}
    Retrieval.objects.bulk_create(
        (
            Retrieval(
                project=project,
                task=f"Cancel reservation {number}",
                heuristic_ids=(given := [revision.heuristic_id for revision in chance.sample(served, 5)]),
                injected_ids=given,
                created_at=now - timedelta(days=56 * chance.random()),
                **asked,
            )
            for number in range(answers)
        ),
        batch_size=1000,
    )
    Review.objects.bulk_create(
        (
            Review(
                project=project,
                kind=Review.Kind.LESSON,
                subject_id=revision.heuristic_id,
                revision_id=revision.pk,
                decision=Review.Decision.APPROVE,
                content_sha256=revision.content_sha256,
                reviewer=f"user:{number % 5}",
                seconds_on_screen=5 + number % 40,
                created_at=now - timedelta(days=56 * chance.random()),
            )
            for number, revision in enumerate(served)
        ),
        batch_size=1000,
    )


def _record_real_runs(project: Project, data: Path) -> int:
    paths = sorted(data.rglob("trajectories.jsonl"))
    entries = [entry for path in paths for entry in read_entries(path) if entry.data]
    # Shuffled, or the first files would fill the sample alone.
    random.Random(1).shuffle(entries)
    for number, entry in enumerate(entries[:SAMPLED_RUNS]):
        fields = (entry.data or {}) | {"external_id": f"real-{number}"}
        record_trajectory(project, data=fields, by=Actor.policy("bench"))
    return min(len(entries), SAMPLED_RUNS)


def _propose_real_lessons(project: Project) -> None:
    """Propose what the reflector wrote about the runs of other agents, each citing a step of a run that is here."""
    runs = list(Trajectory.objects.filter(project=project).order_by("id")[:SAMPLED_RUNS])
    for number, line in enumerate(PROPOSALS.read_text().splitlines()):
        written = json.loads(line)
        text = HeuristicText(
            trigger=written["when"],
            guideline=written["do"],
            avoid=written["avoid"],
            not_when=written["not_when"],
            rationale=written["because"],
            polarity=written["polarity"],
            scope=written["scope"],
        )
        # As the reflector does: the vectors of the runs' tasks are made after the commit.
        with transaction.atomic():
            heuristic = propose_heuristic(project, text=text, by=Actor.policy("bench"))
            add_evidence(heuristic, runs[number % len(runs)], citations=[Citation(first_step=1, last_step=1)])


def decide(root: str, *, decisions: int, executable: str, web_pids: list[int]) -> Measured:
    """Sign in and decide in the inbox, in a browser of its own."""
    with open_browser(executable, viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{root}/admin/login/?next=/admin/")
        page.fill("#id_username", REVIEWER)
        page.fill("#id_password", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{root}/admin/")
        return measure_decisions(page, root, decisions=decisions, read_cpu_seconds=lambda: read_cpu_seconds(web_pids))


def count_queries(project: Project) -> dict[str, dict[str, Any]]:
    """Return for each page its queries, their time altogether, and the slowest of them."""
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(get_user_model()._default_manager.get(username=REVIEWER))
    waiting = Heuristic.objects.proposed().order_by("?")[:2]
    served = Heuristic.objects.filter(status="approved").first()
    cited = Trajectory.objects.filter(evidence__isnull=False).first()
    assert served is not None
    assert cited is not None
    pages = {"home": "/admin/", "inbox": "/admin/inbox/", "list": "/admin/memory/heuristic/?status__exact=proposed"}
    pages |= {f"item {n}": f"/admin/inbox/ahead/?item=lesson/{row.pk}" for n, row in enumerate(waiting, 1)}
    pages |= {f"lesson {n}": f"/admin/memory/heuristic/{row.pk}/change/" for n, row in enumerate(waiting, 1)}
    pages |= {
        "lesson, served": f"/admin/memory/heuristic/{served.pk}/change/",
        "trajectory": f"/admin/memory/trajectory/{cited.pk}/change/",
        "trajectories": "/admin/memory/trajectory/",
        "retrievals": "/admin/memory/retrieval/",
        "reviews": "/admin/memory/review/",
        "statistics": "/admin/memory/review/statistics/",
    }
    counts = {}
    for name, path in pages.items():
        client.get(path)
        with CaptureQueriesContext(connection) as queries:
            started = time.perf_counter()
            status = client.get(path).status_code
            milliseconds = (time.perf_counter() - started) * 1000
        slowest = max(queries.captured_queries, key=lambda query: float(query["time"]))
        counts[name] = {
            "status": status,
            "queries": len(queries),
            "milliseconds": round(milliseconds),
            "database_ms": round(1000 * sum(float(query["time"]) for query in queries.captured_queries)),
            "slowest_ms": round(1000 * float(slowest["time"])),
            "slowest": slowest["sql"][:1500],
        }
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with real runs, in files trajectories.jsonl")
    parser.add_argument("--decisions", type=int, default=30)
    parser.add_argument("--lessons", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--answers", type=int, default=20_000)
    parser.add_argument("--json", action="store_true", help="also print the slowest query of each page")
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        print("No Chromium was found: install it or set CHROMIUM.", file=sys.stderr)
        return 1
    web = Stack(home=HOME, environment={"ERL_HOME": str(HOME)})
    try:
        started = time.perf_counter()
        project = fill(options)
        waiting = Heuristic.objects.proposed().count()
        print(f"{Heuristic.objects.count()} heuristics ({waiting} waiting), {Trajectory.objects.count()} trajectories,")
        print(f"filled in {time.perf_counter() - started:.0f} s", flush=True)
        web.start_web()
        pids = children(web.processes["web"].pid)
        decisions = min(options.decisions, waiting - 1)
        measured = decide(web.base_url, decisions=decisions, executable=executable, web_pids=pids)
        taken = measured.milliseconds
        p95 = taken[min(len(taken) - 1, int(0.95 * len(taken)))]
        median = statistics.median(taken)
        print(f"{len(taken)} decisions: median {median:.0f} ms, p95 {p95:.0f} ms, max {taken[-1]:.0f} ms")
        print(f"processor time of the web server: {measured.cpu_ms:.0f} ms a decision (with the items fetched ahead)")
        print(f"for an approval alone: {measured.alone_ms:.0f} ms")
        print(f"requests of a page on a warm cache: {measured.requests}")
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        print("| page | queries | of them in the database, ms | whole page, ms |\n| --- | --- | --- | --- |")
        pages = count_queries(project)
        for name, page in pages.items():
            print(f"| {name} | {page['queries']} | {page['database_ms']} | {page['milliseconds']} |")
        if options.json:
            print(json.dumps(pages, indent=1))
    finally:
        web.kill_all()
        postgres.stop(HOME / "postgres")
        shutil.rmtree(HOME, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
