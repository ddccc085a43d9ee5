"""What a run that goes on waits for, and which questions to its model had no answer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

from reflection.jobs.models import Job
from runtime.models.runs import KIND, Event, Run, RunStatus, Step, StepStatus, WaitsFor


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAttempt:
    """A question of a step that had no answer."""

    code: str
    error: str
    at: datetime


def with_progress(runs: QuerySet[Run]) -> QuerySet[Any]:
    """Return runs with what `waits_for` reads."""
    jobs = Job.objects.live().filter(kind=KIND, subject=Cast(OuterRef("pk"), TextField()))
    asking = Step.objects.filter(run=OuterRef("pk"), status=StepStatus.ASKING)
    return runs.annotate(job_status=Subquery(jobs.values("status")[:1]), is_asking=Exists(asking))


def waits_for(run: Any) -> WaitsFor:
    """Return what a run of `with_progress` waits for."""
    if not run.is_live:
        return WaitsFor.NOTHING
    if run.status == RunStatus.WAITING:
        return WaitsFor.PERSON
    match run.job_status:
        case Job.Status.QUEUED:
            return WaitsFor.WORKER
        case Job.Status.RETRY | Job.Status.DEFERRED_BUDGET:
            return WaitsFor.LATER
    return WaitsFor.MODEL if run.is_asking else WaitsFor.NOTHING


def read_attempts(run: Run) -> dict[int, list[ModelAttempt]]:
    """Return the attempts at steps of a run that had no answer, by the number of the step. One query."""
    failed = Event.objects.filter(run=run, kind="attempt").order_by("seq")
    by_step: dict[int, list[ModelAttempt]] = {}
    for event in failed:
        facts = event.payload
        attempt = ModelAttempt(code=facts.get("code", ""), error=facts.get("error", ""), at=event.created_at)
        by_step.setdefault(facts["step"], []).append(attempt)
    return by_step
