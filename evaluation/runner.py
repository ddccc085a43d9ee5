"""Run an evaluation: start the process that has the sandbox, keep what it finishes, and put the report together."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.utils import timezone

from evaluation.errors import EvaluationError
from evaluation.models import EvaluationRun
from evaluation.sandbox import create_sandbox, sandbox_environment
from evaluation.suites.base import Options
from evaluation.suites.registry import get_suite
from evaluation.versions import find_versions

log = structlog.get_logger(__name__)

FORMAT = 1
RESUMABLE_FOR = timedelta(days=7)
Watch = Callable[[str, int, int], None]


def create_run(
    options: Options, *, by: str, project: Any = None, status: str = EvaluationRun.Status.RUNNING
) -> EvaluationRun:
    """Write down an evaluation that is about to run.

    Raises:
        EvaluationError: a suite or an arm is not known.
    """
    for name in options.suites:
        suite = get_suite(name)
        suite.units(options)
        getattr(suite, "arms", lambda _: None)(options)
    return EvaluationRun.objects.create(
        suites=list(options.suites),
        configuration=options.as_json(),
        versions=find_versions(),
        requested_by=by,
        project=project,
        status=status,
    )


def find_unfinished(options: Options) -> EvaluationRun | None:
    """Return the newest run with these options and the present versions that did not come to its end."""
    runs = EvaluationRun.objects.filter(
        status__in=[EvaluationRun.Status.RUNNING, EvaluationRun.Status.FAILED],
        configuration=options.as_json(),
        versions=find_versions(),
        created_at__gte=timezone.now() - RESUMABLE_FOR,
    )
    return runs.first()


def execute_run(run: EvaluationRun, *, watch: Watch = lambda what, done, total: None) -> EvaluationRun:
    """See a run through, from what of it is finished already.

    Raises:
        EvaluationError: it cannot go on; the run is marked failed, and says why.
    """
    options = Options.from_json(run.configuration)
    started = time.perf_counter()
    run.status, run.failure, run.finished_at = EvaluationRun.Status.RUNNING, "", None
    run.save(update_fields=["status", "failure", "finished_at"])
    try:
        todo = _find_todo(run, options)
        for event in _run_child(options, todo) if todo else ():
            if event["event"] == "progress":
                watch(event["what"], event["done"], event["total"])
            elif event["event"] == "unit":
                run.units.setdefault(event["suite"], {})[event["unit"]] = event["result"]
                run.save(update_fields=["units"])
        run.results = build_results(run, options, seconds=time.perf_counter() - started)
    except EvaluationError as error:
        run.status, run.failure, run.finished_at = EvaluationRun.Status.FAILED, str(error), timezone.now()
        run.save(update_fields=["status", "failure", "finished_at"])
        raise
    run.status, run.finished_at = EvaluationRun.Status.FINISHED, timezone.now()
    run.save(update_fields=["status", "finished_at", "results"])
    log.info("evaluation_finished", run_id=str(run.pk), suites=run.suites)
    return run


def build_results(run: EvaluationRun, options: Options, *, seconds: float = 0.0) -> dict[str, Any]:
    """Return the report of a run: the same for the same seed and versions, but for the member `timing`."""
    suites, timing = [], {}
    for name in options.suites:
        suite = get_suite(name)
        finished = run.units[name]
        units = {unit: finished[unit] for unit in suite.units(options)}
        suites.append(suite.summarise(units, options))
        timing[name] = {unit: result["timing"] for unit, result in units.items()}
    return {
        "format": FORMAT,
        "configuration": {name: value for name, value in run.configuration.items() if name != "data"},
        "versions": run.versions,
        "suites": suites,
        "timing": {
            "run": str(run.pk),
            "started_at": run.created_at.isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
            "suites": timing,
        },
    }


def _find_todo(run: EvaluationRun, options: Options) -> list[list[str]]:
    return [
        [name, unit]
        for name in options.suites
        for unit in get_suite(name).units(options)
        if unit not in run.units.get(name, {})
    ]


def _run_child(options: Options, todo: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Yield what the process with the sandbox says, and stop it where nobody listens any more."""
    child = subprocess.Popen(
        [sys.executable, "-m", "evaluation.child"],
        cwd=settings.BASE_DIR,
        env=sandbox_environment(create_sandbox()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with child.stdin:
            json.dump({"options": options.as_json(), "todo": todo}, child.stdin)
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "refused":
                raise EvaluationError(event["says"])
            if event["event"] == "done":
                return
            yield event
        raise EvaluationError(
            f"The evaluating process ended with exit code {child.wait()} before it was done. Its last words are on the "
            "terminal. Run the command again with --resume to go on where it stopped."
        )
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
