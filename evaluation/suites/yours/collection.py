"""Read a project's runs and lessons from the live database, in one read-only snapshot, for the suite `yours`."""

from typing import Any

from django.db import connection, transaction

from evaluation.errors import EvaluationError
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.projects.models import Project
from memory.runs.models import Trajectory

MAX_RUNS = 5000
_STATUS = Heuristic.Status
_RUN = ("task", "task_id", "steps", "outcome", "score", "outcome_source", "agent", "model", "summary", "mistakes",
        "successes")  # fmt: skip
_LESSON = ("trigger", "guideline", "avoid", "not_when", "rationale", "polarity", "scope", "task_id", "tags",
           "source_task")  # fmt: skip


def find_project(slug: str) -> Project:
    """Return the named project, or the only one.

    Raises:
        EvaluationError: no project has that name, or none is named and there is not exactly one.
    """
    projects = list(Project.objects.filter(slug=slug) if slug else Project.objects.all()[:2])
    if len(projects) == 1:
        return projects[0]
    if slug or not projects:
        raise EvaluationError(f"There is no project {slug!r}. The admin lists the projects.")
    raise EvaluationError("There are several projects. Name one with --project.")


def collect_project(slug: str) -> dict[str, Any]:
    """Return a project's newest runs, oldest first, and its approved and proposed lessons, ready for JSON."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            if connection.get_autocommit() or not connection.savepoint_ids:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        project = find_project(slug)
        runs = list(Trajectory.objects.for_project(project).select_related("retrieval")[:MAX_RUNS])[::-1]
        heuristics = Heuristic.objects.with_text().filter(
            project=project, status__in=(_STATUS.APPROVED, _STATUS.PROPOSED)
        )
        cited = Evidence.objects.filter(project=project, heuristic__kind=Heuristic.Kind.LESSON)
        evidence: dict[Any, list[str]] = {}
        for heuristic_id, run_id in cited.values_list("heuristic", "trajectory"):
            evidence.setdefault(heuristic_id, []).append(str(run_id))
        served = {
            revision.heuristic_id: revision
            for revision in HeuristicRevision.objects.of_lessons().filter(project=project, served=True)
        }
        lessons = [
            _as_lesson(heuristic, served.get(heuristic.pk), evidence.get(heuristic.pk, []))
            for heuristic in heuristics.order_by("id")
        ]
    return {"project": project.slug, "runs": [_as_run(run) for run in runs], "lessons": lessons}


def _as_run(run: Trajectory) -> dict[str, Any]:
    retrieval = run.retrieval
    return {name: getattr(run, name) for name in _RUN} | {
        "id": str(run.pk),
        "given": "" if retrieval is None else "nothing" if not retrieval.tokens else "lessons",
        "is_control": retrieval is not None and retrieval.requested_mode == "none",
    }


def _as_lesson(heuristic: Heuristic, served: HeuristicRevision | None, runs: list[str]) -> dict[str, Any]:
    current = heuristic.current_revision
    newest = {name: getattr(current, name) for name in _LESSON}
    return {
        "id": str(heuristic.pk),
        "status": heuristic.status,
        "runs": runs,
        "newest": newest,
        "served": {name: getattr(served, name) for name in _LESSON} if served is not None else None,
    }
