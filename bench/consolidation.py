"""Consolidate the memory of real episodes, twice, and under kills; print the figures and some proposals unedited.

    uv run python -m bench.consolidation --data FOLDER [--kills 20] [--show 30] [--groups 50] [--seed 1]

FOLDER holds reflexion_runs, tau_airline_trajectories and webshop_trajectories. Their episodes are recorded in a scratch
project of a database of its own and reflected on by the offline rules, as they would be by the worker. How many rows of
the queue the proposals take is counted; --groups prints some of those that share a row. Then the memory is
consolidated; a second consolidation of everything must add nothing. With --kills the same consolidation is made in a
second project by processes that are killed (SIGKILL) after a random time, and must end in the same state.
"""

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tests.servers

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
os.environ["ERL_REFLECTOR"] = "rules"
os.environ["ERL_LOG_LEVEL"] = "CRITICAL"
import django  # isort: skip

django.setup()
logging.disable(logging.CRITICAL)

from django.db import connection  # noqa: E402
from django.test.utils import setup_databases, setup_test_environment, teardown_databases  # noqa: E402
from tqdm import tqdm  # noqa: E402

from erl_site.embedded import postgres  # noqa: E402
from memory.curation.proposal_groups import find_members  # noqa: E402
from memory.heuristics.extensions import find_tallies  # noqa: E402
from memory.heuristics.models import Evidence, Heuristic  # noqa: E402
from memory.intake.files import read_entries  # noqa: E402
from memory.intake.recording import RunSender, record_trajectory  # noqa: E402
from memory.projects.actors import Actor  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from memory.runs.models import Trajectory  # noqa: E402
from reflection.consolidation.execution import run_consolidation  # noqa: E402
from reflection.consolidation.models import ConsolidationRun, Suggestion  # noqa: E402
from reflection.consolidation.requests import request_consolidation  # noqa: E402
from reflection.jobs.execution import Outcome  # noqa: E402
from reflection.reflectors.reflections import run_reflection  # noqa: E402
from tests.administrator import become_administrator  # noqa: E402
from tests.stack import database_url  # noqa: E402

BY = Actor(label="benchmark")
SILENT: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
START_SECONDS = 5.0  # of a process, before it takes up the work
CLI = [sys.executable, "manage.py", "run_jobs", "--json", "--kind", "consolidation"]


def read_episodes(data: Path) -> Iterator[dict[str, Any]]:
    """Give every recorded trial with what the agent noted after it, then the runs with steps."""
    lessons: dict[tuple[str, str], list[str]] = {}
    for row in _lines(data / "reflexion_runs" / "lessons.jsonl"):
        lessons.setdefault((row["suite"], row["task_id"]), []).append(row["lesson"])
    for row in _lines(data / "reflexion_runs" / "outcomes.jsonl"):
        if row["arm"] != "reflection" or "success" not in row:
            continue
        noted = lessons.get((row["suite"], row["task_id"]), [])
        # After each failed trial the agent wrote one lesson, which the next trial was given; mbpp has no trials.
        mine = noted[row["trial"] : row["trial"] + 1] if row["suite"] == "alfworld" else noted
        yield {
            "external_id": f"{row['suite']}/{row['task_id']}/{row['trial']}",
            "task": f"{row['suite']} task {row['task_id']}",
            "task_id": row["task_id"],
            "agent": f"reflexion-{row['suite']}",
            "outcome": "success" if row["success"] else "failure",
            "score": float(row["success"]),
            "outcome_source": "environment",
            "mistakes": [] if row["success"] else mine,
        }
    for name in ("tau_airline_trajectories", "webshop_trajectories"):
        for entry in read_entries(data / name / "trajectories.jsonl"):
            if entry.data is not None:
                yield entry.data | {"outcome_source": "environment"}


def load(project: Project, episodes: list[dict[str, Any]]) -> None:
    """Record episodes and reflect on those there is something to read in."""
    for data in tqdm(episodes, desc=project.slug, leave=False, disable=not sys.stderr.isatty()):
        readable = bool(data.get("steps") or data.get("mistakes") or data.get("successes"))
        record_trajectory(
            project, data=data, by=BY, reflect=readable, sender=RunSender(client=data.get("agent", "") or "benchmark")
        )
    while run_reflection(owner="benchmark").outcome != Outcome.NOTHING:
        pass


def consolidate(project: Project, *, again: bool = False) -> tuple[ConsolidationRun, float]:
    run = request_consolidation(project, cause=ConsolidationRun.Cause.COMMAND, by=BY, again=again)
    start = time.perf_counter()
    done = run_consolidation(run.pk, owner="benchmark")
    assert done is not None
    return done, time.perf_counter() - start


def consolidate_under_kills(project: Project, *, kills: int, seconds: float) -> int:
    """Let processes consolidate and kill them at random times, then let one finish; return how many were killed."""
    environment = os.environ | {
        "DATABASE_URL": database_url(connection.settings_dict),
        "TEST_REFLECTION_LEASE_SECONDS": "1",
    }
    environment["TEST_REFLECTION_MAX_ATTEMPTS"] = "100"
    killed = tries = 0
    # A process may end before it is killed, so more are started than have to die.
    while killed < kills and tries < 4 * kills:
        tries += 1
        # Everything again: one that was finished between two kills leaves the next as much to do.
        request_consolidation(project, cause="command", by=BY, again=True)
        process = subprocess.Popen(CLI, env=environment, **SILENT)
        try:
            process.wait(timeout=1 + random.random() * (seconds + START_SECONDS))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
        # Until the lease of the dead is over.
        time.sleep(1.2)
    for _ in range(20):
        subprocess.run(CLI, env=environment, check=False, **SILENT)
        if not ConsolidationRun.objects.for_project(project).live().exists():
            break
        time.sleep(1.2)
    return killed


def state_of(project: Project) -> dict[str, list[Any]]:
    """Describe a project's lessons, evidence and suggestions without their ids."""
    names: dict[Any, str] = {}
    for heuristic in Heuristic.objects.for_project(project).with_text():
        assert heuristic.current_revision is not None
        text = heuristic.current_revision
        # By their words, as ids differ from one project to the next.
        names[heuristic.pk] = f"{text.scope}/{text.task_id}/{text.polarity}: {text.trigger} → {text.guideline}"
    return {
        "lessons": sorted((names[h.pk], h.status, h.support) for h in Heuristic.objects.for_project(project)),
        "evidence": sorted(
            (names[e.heuristic_id], e.trajectory.external_id or e.trajectory.task)
            for e in Evidence.objects.filter(project=project).select_related("trajectory")
        ),
        "suggestions": sorted(
            (s.kind, names[s.heuristic_id], names.get(s.other_id, ""), s.reason)
            for s in Suggestion.objects.filter(project=project)
        ),
    }


def show(project: Project, *, count: int, seed: int) -> None:
    """Print a random choice of what was suggested, in its own words."""
    made = list(
        Suggestion.objects.filter(project=project)
        .select_related("heuristic__current_revision", "other__current_revision")
        .order_by("created_at", "id")
    )
    for number, suggestion in enumerate(random.Random(seed).sample(made, min(count, len(made))), 1):
        print(f"\n── {number}. {suggestion.get_kind_display()} ({suggestion.method})")
        print(f"   why      {suggestion.reason}")
        _print_lesson("lesson" if suggestion.other is None else "this", suggestion.heuristic)
        if suggestion.other is not None:
            _print_lesson("into" if suggestion.kind == Suggestion.Kind.MERGE else "against", suggestion.other)
        for name in ("trigger", "guideline", "not_when", "scope"):
            if suggestion.text and suggestion.text[name] != getattr(suggestion.heuristic.current_revision, name):
                print(f"   new {name}: {suggestion.text[name]}")


def show_rules(project: Project, *, count: int, seed: int) -> None:
    """Print a random choice of the rules that reflections made of what was noted with single runs."""
    noted = Heuristic.objects.for_project(project).filter(current_revision__tags__contains=["recorded_notes"])
    made = list(noted.with_text().order_by("created_at", "id"))
    for number, heuristic in enumerate(random.Random(seed).sample(made, min(count, len(made))), 1):
        print(f"\n── rule {number} of {len(made)}")
        _print_lesson("lesson", heuristic)


def show_groups(project: Project, *, count: int, seed: int) -> None:
    """Print how many rows of the queue the proposals take, and a random choice of those that share one."""
    proposed = Heuristic.objects.for_project(project).proposed()
    leaders = list(proposed.leading().filter(members__isnull=False).distinct().with_text().order_by("created_at", "id"))
    rows = proposed.leading().count()
    print(f"queue: {proposed.count()} proposals in {rows} rows, {len(leaders)} of them groups")
    counted = find_tallies(proposed.leading().values_list("pk", flat=True))
    met = sum(tally.failures_met > 1 for tally in counted.values())
    print(f"failures are counted for {len(counted)} rows; {met} would have met more than one")
    for number, leader in enumerate(random.Random(seed).sample(leaders, min(count, len(leaders))), 1):
        print(f"\n── group {number}")
        _print_lesson("shown", leader)
        for member in find_members(leader):
            _print_lesson("other", member)


def _print_lesson(label: str, heuristic: Heuristic) -> None:
    text = heuristic.current_revision
    assert text is not None
    scope = text.task_id if text.scope == "task_family" else "whole project"
    print(f"   {label:<8} [{text.polarity}, {scope}, {heuristic.support} runs, {heuristic.status}]")
    print(f"   when     {text.trigger.removeprefix('When ')}")
    print(f"   do       {text.guideline}")
    if text.avoid:
        print(f"   avoid    {text.avoid}")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def _report(title: str, run: ConsolidationRun, seconds: float) -> None:
    print(f"\n{title}: {run.status} in {seconds:.1f} s {run.last_error}")
    for name in (
        "episodes",
        "notes",
        "heuristics_proposed",
        "heuristics_supported",
        "suggestions_made",
        "items_before",
        "items_after",
        "tokens_before",
        "tokens_after",
    ):
        print(f"  {name:<22}{getattr(run, name)}")
    print(f"  {'suggested':<22}{dict(Counter(run.suggestions.values_list('kind', flat=True)))}")


@contextmanager
def scratch_database() -> Iterator[None]:
    become_administrator()
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        # A database in use cannot be dropped.
        connection.close()
        teardown_databases(databases, verbosity=0)
        postgres.stop(tests.servers.HOME / "postgres", mode="immediate")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--limit", type=int, help="only the first N episodes")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--groups", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    with scratch_database():
        episodes = list(read_episodes(options.data))[: options.limit]
        print(f"{len(episodes)} episodes, load {os.getloadavg()[0]:.1f}")
        project = Project.objects.create(slug="calm", name="Calm")
        start = time.perf_counter()
        load(project, episodes)
        lessons = Heuristic.objects.for_project(project).count()
        runs = Trajectory.objects.for_project(project).count()
        print(f"recorded {runs} and reflected in {time.perf_counter() - start:.0f} s: {lessons} lessons proposed")
        show_groups(project, count=options.groups, seed=options.seed)
        run, seconds = consolidate(project)
        _report("first consolidation", run, seconds)
        first = state_of(project)
        again, again_seconds = consolidate(project, again=True)
        _report("second consolidation, of everything", again, again_seconds)
        same = state_of(project) == first
        print(f"\nthe second one changed {'nothing' if same else 'SOMETHING'}")
        failed = not same
        if options.kills:
            other = Project.objects.create(slug="killed", name="Killed")
            load(other, episodes)
            killed = consolidate_under_kills(other, kills=options.kills, seconds=seconds)
            equal = state_of(other) == first
            print(f"after {killed} kills the state is {'the same' if equal else 'DIFFERENT'}")
            failed = failed or not equal
        if options.show:
            show(project, count=options.show, seed=options.seed)
            show_rules(project, count=options.show // 2, seed=options.seed)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
