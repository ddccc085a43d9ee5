"""Run an evaluation: start the sandbox processes, store each finished unit, and build the report."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from evaluation.errors import DatabaseBehind, EvaluationError
from evaluation.isolation.children import run_children
from evaluation.models import EvaluationRun
from evaluation.reports.versions import find_versions
from evaluation.suites.base import Options
from evaluation.suites.registry import get_suite, name_staging_suites
from memory.events import EventKind, ProjectEvent, announce
from memory.projects.models import Project
from reflection.jobs.models import Job

EMBEDDED = "erl_site.embedded.database"
FORMAT = 1
RESUMABLE_FOR = timedelta(days=7)
MACHINE = ("data", "tasks", "folder")  # options that name places of this machine; no report has them
Watch = Callable[[str, int, int], None]


def prepare_database() -> bool:
    """Create the tables if the database is embedded and new; return whether that was needed.

    Raises:
        DatabaseBehind: the tables are not the ones this code expects.
    """
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return False
    is_new = not executor.loader.applied_migrations
    # Only a database that was made for this run is migrated without being asked.
    if is_new and connection.settings_dict["ENGINE"] == EMBEDDED:
        call_command("migrate", verbosity=0, interactive=False)
        return True
    raise DatabaseBehind(
        f"The database {connection.settings_dict['NAME']} lacks {len(plan)} migrations, so the run could not be "
        "stored. Nothing was changed. Run `uv run manage.py migrate` first."
    )


def create_run(options: Options, *, by: str, job: Job | None = None) -> EvaluationRun:
    """Store an evaluation that is about to run, or one that waits for a worker, as a job of a project.

    Raises:
        EvaluationError: a suite or an arm is unknown or cannot run here.
    """
    for name in options.suites:
        suite = get_suite(name)
        if options.stage and not suite.can_stage:
            raise EvaluationError(
                f"The suite {name} does not stage releases. Use --stage with {name_staging_suites()}."
            )
        suite.units(options)
        suite.arms(options)
    return EvaluationRun.objects.create(
        suites=list(options.suites),
        configuration=options.as_json(),
        versions=find_versions(),
        requested_by=by,
        project=job.project if job else Project.objects.filter(slug=options.project).first(),
        job=job,
        status=EvaluationRun.Status.QUEUED if job else EvaluationRun.Status.RUNNING,
    )


def find_unfinished(options: Options) -> EvaluationRun | None:
    """Return the newest unfinished run with the same options and versions."""
    runs = EvaluationRun.objects.filter(
        status__in=[EvaluationRun.Status.RUNNING, EvaluationRun.Status.FAILED],
        configuration=options.as_json(),
        versions=find_versions(),
        created_at__gte=timezone.now() - RESUMABLE_FOR,
    )
    return runs.first()


def execute_run(
    run: EvaluationRun,
    *,
    watch: Watch = lambda what, done, total: None,
    ensure_held: Callable[[], None] = lambda: None,
) -> EvaluationRun:
    """Run the units that are not finished yet and store the report. `ensure_held` is called before each write.

    Raises:
        EvaluationError: the run cannot continue; it is marked as failed with the reason.
    """
    options = Options.from_json(run.configuration)
    started = time.perf_counter()
    run.status, run.failure, run.finished_at = EvaluationRun.Status.RUNNING, "", None
    run.save(update_fields=["status", "failure", "finished_at"])
    try:
        todo = _find_todo(run, options)
        for event in run_children(run, options, todo) if todo else ():
            if event["event"] == "progress":
                watch(event["what"], event["done"], event["total"])
            elif event["event"] == "unit":
                ensure_held()
                run.units.setdefault(event["suite"], {})[event["unit"]] = event["result"]
                # Stored unit by unit: a run that is killed goes on with the next one.
                run.save(update_fields=["units"])
        ensure_held()
        run.results = build_results(run, options, seconds=time.perf_counter() - started)
    except EvaluationError as error:
        end_run(run, EvaluationRun.Status.FAILED, failure=str(error))
        raise
    end_run(run, EvaluationRun.Status.FINISHED)
    return run


@transaction.atomic
def end_run(run: EvaluationRun, status: str, *, failure: str = "") -> None:
    """Write how a run ended, with its results, and announce it where a project asked for it."""
    run.status, run.failure, run.finished_at = status, failure, timezone.now()
    run.save(update_fields=["status", "failure", "finished_at", "results"])
    if run.project_id is not None:
        details = {"evaluation": str(run.pk), "status": str(status), "suites": list(run.suites)}
        # In the same transaction, so that no event is sent for an end that was rolled back.
        announce(ProjectEvent(kind=EventKind.EVALUATION_FINISHED, project_id=run.project_id, details=details))


def count_units(run: EvaluationRun) -> tuple[int, int]:
    """Return how many parts of an evaluation are finished, and how many it has: seeds, data sets."""
    finished = sum(map(len, run.units.values()))
    if run.status == EvaluationRun.Status.FINISHED:
        return finished, finished
    try:
        options = Options.from_json(run.configuration)
        return finished, sum(len(get_suite(name).units(options)) for name in run.suites)
    except EvaluationError:
        # An operator's files and commands need not be on the machine that answers.
        return finished, finished


def build_results(run: EvaluationRun, options: Options, *, seconds: float = 0.0) -> dict[str, Any]:
    """Return the report of a run. Apart from `timing`, it depends only on options and versions."""
    suites, timing = [], {}
    for name in options.suites:
        suite = get_suite(name)
        finished = run.units[name]
        units = {unit: finished[unit] for unit in suite.units(options)}
        suites.append(suite.summarise(units, options))
        timing[name] = {unit: result["timing"] for unit, result in units.items()}
    return {
        "format": FORMAT,
        "configuration": {name: value for name, value in run.configuration.items() if name not in MACHINE},
        "versions": run.versions,
        "suites": suites,
        "timing": {
            "run": str(run.pk),
            "started_at": run.created_at.isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
            "suites": timing,
        },
    }


def _find_todo(run: EvaluationRun, options: Options) -> list[tuple[str, str]]:
    return [
        (name, unit)
        for name in options.suites
        for unit in get_suite(name).units(options)
        if unit not in run.units.get(name, {})
    ]
