"""Evaluations that API clients ask for: written down, run by a worker one at a time, and taken up again if it died."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, transaction
from django.utils import timezone

from evaluation.errors import EvaluationError, ProcessEnded, SandboxTaken
from evaluation.models import EvaluationRun
from evaluation.runner import create_run, execute_run
from evaluation.suites.base import Options
from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.jobs.doorbell import doorbell

log = structlog.get_logger(__name__)

TIME_LIMIT_SECONDS = 1800  # of an evaluation asked for through the API
EVALUATE = "evaluation.tasks.evaluate"
UNHEARD_SECONDS = 5.0  # after which whoever asks how a run stands rings for it again
_Status = EvaluationRun.Status
LIVE = (_Status.QUEUED, _Status.RUNNING)


@transaction.atomic
def request_evaluation(project: Project, *, options: Options, by: Actor) -> tuple[EvaluationRun, bool]:
    """Queue an evaluation and say whether it is new: a project has one at a time, and the live one is answered.

    Raises:
        EvaluationError: a suite or an arm is not known, or cannot run here.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"evaluation.request:{project.pk}"])
    live = EvaluationRun.objects.filter(project=project, status__in=LIVE).first()
    if live is not None:
        return live, False
    run = create_run(options, by=by.label, project=project, status=_Status.QUEUED)
    transaction.on_commit(partial(doorbell.send, EVALUATE, str(run.pk)))
    return run, True


def run_requested(run_id: UUID) -> None:
    """See a requested evaluation through; do nothing where somebody else does, or it is over."""
    with _held(run_id) as is_mine:
        run = EvaluationRun.objects.filter(pk=run_id, status__in=LIVE).first()
        if not is_mine or run is None:
            return
        try:
            execute_run(run)
            log.info("evaluation_finished", run_id=str(run_id), suites=run.suites)
        except SandboxTaken:  # the other one rings when it is finished
            EvaluationRun.objects.filter(pk=run_id).update(status=_Status.QUEUED, failure="", finished_at=None)
            log.info("evaluation_waits", run_id=str(run_id))
            return
        except ProcessEnded as error:
            said = (
                f"{error} The worker's log has its last words; often it is memory that was missing. Ask for the "
                "evaluation again, for fewer tasks if it ends the same way."
            )
            EvaluationRun.objects.filter(pk=run_id).update(failure=said)
            log.warning("evaluation_failed", run_id=str(run_id), error=type(error).__name__)
        except EvaluationError as error:
            log.warning("evaluation_failed", run_id=str(run_id), error=type(error).__name__)
        except SoftTimeLimitExceeded:
            said = (
                f"It took longer than {TIME_LIMIT_SECONDS} seconds and was stopped. Ask for fewer tasks, or run "
                "manage.py evaluate, which has no limit."
            )
            EvaluationRun.objects.filter(pk=run_id).update(
                status=_Status.FAILED, failure=said, finished_at=timezone.now()
            )
            log.warning("evaluation_failed", run_id=str(run_id), error="time_limit")
    ring_for_next()


def ring_for_next() -> None:
    """Tell the workers of the evaluation that waits longest, if one does."""
    waiting = EvaluationRun.objects.filter(status=_Status.QUEUED).order_by("created_at").first()
    if waiting is not None:
        doorbell.send(EVALUATE, str(waiting.pk))


def ring_if_forgotten(run: EvaluationRun) -> None:
    """Ring again for a live run that nobody works on: its message was lost, or its worker died."""
    if run.status not in LIVE or run.created_at > timezone.now() - timedelta(seconds=UNHEARD_SECONDS):
        return
    with _held(run.pk) as is_free:
        if is_free:
            doorbell.send(EVALUATE, str(run.pk))


@contextmanager
def _held(run_id: UUID) -> Iterator[bool]:
    """Hold a run as long as this connection lives, and say whether nobody else holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [f"evaluation.run:{run_id}"])
        is_held: bool = cursor.fetchone()[0]
    try:
        yield is_held
    finally:
        if is_held:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [f"evaluation.run:{run_id}"])
