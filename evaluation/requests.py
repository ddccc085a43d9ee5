"""Evaluations that API clients ask for: queued, run by a worker one at a time, and continued if the worker died."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from evaluation.errors import EvaluationError, ProcessEnded, SandboxTaken
from evaluation.models import EvaluationRun
from evaluation.runner import create_run, end_run, execute_run
from evaluation.suites.base import Options
from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.errors import NotNow
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.kinds import JobKind
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, enqueue, finish

log = structlog.get_logger(__name__)

NAME = "evaluation"
TIME_LIMIT_SECONDS = 1800  # of an evaluation asked for through the API
WAIT_SECONDS = 10.0  # for the sandbox, while another evaluation runs in it
_Status = EvaluationRun.Status
LIVE = (_Status.QUEUED, _Status.RUNNING)


@transaction.atomic
def request_evaluation(project: Project, *, options: Options, by: Actor) -> EvaluationRun:
    """Queue an evaluation of a project, or return the one that is queued or running: it has one at a time.

    Raises:
        EvaluationError: a suite or an arm is not known, or cannot run here.
    """
    # The project is the subject, and a project has one live job of a subject.
    job = enqueue(Job(kind=NAME, project=project, subject=str(project.pk), requested_by=by.label))
    run = EvaluationRun.objects.filter(job=job).first()
    return run or create_run(options, by=by.label, job=job)


def run_evaluation(job_id: UUID | None = None, *, owner: str) -> Outcome:
    """Claim a requested evaluation, or the one that is due longest, and carry it out."""
    job = claim(NAME, job_id, owner=owner)
    if job is None:
        return Outcome.NOTHING
    outcome, _ = carry_out(job, partial(_see_through, job))
    return outcome


def give_up(job: Job) -> None:
    """Say on the evaluation of a job that is dead why it is."""
    _mark_failed(job, job.last_error)


def _see_through(job: Job, heartbeat: Heartbeat) -> None:
    run = EvaluationRun.objects.filter(job=job, status__in=LIVE).first()
    if run is not None:
        _wait_for_turn(job)
        _execute(job, run, heartbeat.ensure_held)
    finish(job)


def _wait_for_turn(job: Job) -> None:
    """Raise `NotNow` where another evaluation has the sandbox."""
    # A lease that has run out belongs to a dead worker, which holds nothing.
    others = Job.objects.filter(kind=NAME, status=Job.Status.RUNNING, lease_until__gt=Now())
    # Asked before the sandbox is started; its own lock decides where two come at once.
    if others.exclude(pk=job.pk).exists():
        raise NotNow("Another evaluation is running. This one starts when it has finished.", wait_seconds=WAIT_SECONDS)


def _execute(job: Job, run: EvaluationRun, ensure_held: Callable[[], None]) -> None:
    """Run an evaluation and write what keeps it from its end on its row: a client reads it there."""
    try:
        execute_run(run, ensure_held=ensure_held)
    except SandboxTaken as error:
        # It has not failed, it only waits for its turn.
        EvaluationRun.objects.filter(pk=run.pk).update(status=_Status.QUEUED, failure="", finished_at=None)
        raise NotNow(str(error), wait_seconds=WAIT_SECONDS) from error
    except ProcessEnded as error:
        reason = (
            f"{error} See the end of the worker's log; often there was too little memory. Request the evaluation "
            "again, with fewer tasks if it fails the same way."
        )
        _mark_failed(job, reason)
    except EvaluationError as error:
        log.warning("evaluation_failed", run_id=str(run.pk), error=type(error).__name__)
    except SoftTimeLimitExceeded:
        reason = (
            f"It took longer than {TIME_LIMIT_SECONDS} seconds and was stopped. Ask for "
            "fewer tasks, or run manage.py evaluate, which has no limit."
        )
        _mark_failed(job, reason)


def _mark_failed(job: Job, said: str) -> None:
    for run in EvaluationRun.objects.filter(job=job):
        end_run(run, _Status.FAILED, failure=said)
    log.warning("evaluation_failed", job_id=str(job.pk))


EVALUATION = JobKind(
    name=NAME,
    run=run_evaluation,
    queue=settings.ERL_EVALUATION_QUEUE,
    time_limit_seconds=TIME_LIMIT_SECONDS,
    give_up=give_up,
)
