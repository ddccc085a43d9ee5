"""Carry out a claimed job: keep its lease, and write on its row how the attempt ended."""

import random
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from memory.failpoints import failpoint
from memory.redaction import redact
from memory.tracing import span
from reflection.errors import BudgetExhausted, LostClaim, NotNow, ReflectionError
from reflection.jobs.doorbell import doorbell
from reflection.jobs.heartbeat import Heartbeat
from reflection.jobs.kinds import get_kind
from reflection.jobs.models import Job
from reflection.jobs.queue import defer, fail, postpone

log = structlog.get_logger(__name__)

MAX_ERROR_CHARACTERS = 500
Result = TypeVar("Result")
SPREAD_SECONDS = 5.0  # so that jobs that wait for the same thing do not all come back at once


class Outcome(StrEnum):
    """What became of an attempt."""

    NOTHING = "nothing"  # nothing could be claimed
    DONE = "done"
    RETRY = "retry"
    DEFERRED_BUDGET = "deferred_budget"
    DEAD = "dead"
    LOST = "lost"  # another worker holds it now; nothing was written


def carry_out(job: Job, work: Callable[[Heartbeat], Result]) -> tuple[Outcome, Result | None]:
    """Do the work of a claimed job; return what became of it and what the work returned.

    The work itself marks the job done; what goes wrong is written on the row here.

    Raises only what stops the process, after giving the job back.
    """
    context = {f"{job.kind}_id": str(job.pk)}
    context |= {name: value for name in ("request_id", "traceparent") if (value := getattr(job, name))}
    with structlog.contextvars.bound_contextvars(**context):
        log.info(job.event("started"), attempts=job.attempts, owner=job.lease_owner)
        failpoint("job.claimed")
        about = {f"erl.{job.kind}_id": str(job.pk), "erl.attempts": job.attempts}
        with span(job.kind, parent=job.traceparent, **about):
            outcome, result = _attempt(job, work)
        log.info(job.event("finished"), outcome=outcome.value)
    return outcome, result


def _attempt(job: Job, work: Callable[[Heartbeat], Result]) -> tuple[Outcome, Result | None]:
    try:
        with Heartbeat(job) as heartbeat:
            try:
                return Outcome.DONE, work(heartbeat)
            except Exception as error:  # the row says what went wrong, and the next job runs
                return Outcome(_give_back(job, error)), None
            except BaseException:
                with suppress(LostClaim, DatabaseError, InterfaceError):
                    postpone(job, code="interrupted", message=f"The worker was stopped. The {job.kind} goes on.")
                raise
    except (LostClaim, DatabaseError, InterfaceError) as error:
        # Without the database nothing can be written: the lease ends and another worker takes the job.
        log.warning(job.event("lost"), error=type(error).__name__)
        return Outcome.LOST, None


def _give_back(job: Job, error: Exception) -> str:
    """Write on the row what went wrong; return the new status.

    Raises:
        LostClaim: another worker holds it.
    """
    match error:
        case LostClaim():
            raise error
        case BudgetExhausted():
            deferred = defer(job, message=str(error))
            log.warning("project_out_of_budget", project_id=str(job.project_id), deferred=deferred)
        case NotNow(wait_seconds=None):
            postpone(job, code=error.code, message=str(error))
            doorbell.ring(job.pk, job.kind)
        case NotNow(wait_seconds=float(wait_seconds)):
            later = wait_seconds + random.uniform(0, SPREAD_SECONDS)  # noqa: S311 - no secret
            postpone(job, wait_seconds=later, code=error.code, message=str(error))
        case ReflectionError():
            fail(
                job,
                code=error.code,
                message=redact(str(error)).value[:MAX_ERROR_CHARACTERS],
                transient=error.transient,
                retry_after_seconds=getattr(error, "retry_after_seconds", None),
            )
        case SoftTimeLimitExceeded():
            seconds = get_kind(job.kind).time_limit_seconds or settings.CELERY_TASK_SOFT_TIME_LIMIT
            message = f"It took longer than {seconds} seconds and was stopped."
            fail(job, code="time_limit", message=message, transient=True)
        case _:
            _fail_unexpectedly(job, error)
    return job.status


def _fail_unexpectedly(job: Job, error: Exception) -> None:
    """Record an error that was not foreseen: its kind and place, not its words, which may repeat a run."""
    frames = traceback.extract_tb(error.__traceback__)
    where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    ours = [place for place, frame in zip(where, frames, strict=True) if "site-packages" not in frame.filename]
    kind = type(error).__name__
    log.error(job.event("crashed"), error=kind, where=where[-8:])
    message = f"An unexpected {kind} stopped it at {ours[-1]}. The worker's log has more at {job.kind}_crashed."
    fail(job, code="unexpected_error", message=message, transient=True)
