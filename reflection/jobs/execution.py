"""Carry out a claimed job: keep its lease, and write on its row how the attempt ended."""

import random
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self, TypeVar

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from memory.failpoints import failpoint
from memory.redaction import redact
from memory.tracing import span
from reflection.errors import BudgetExhausted, LostClaim, NotNow, ReflectionError
from reflection.jobs.kinds import get_kind
from reflection.jobs.messages import sender
from reflection.jobs.models import Job
from reflection.jobs.queue import defer, extend_lease, fail, postpone

log = structlog.get_logger(__name__)

BEATS_PER_LEASE = 3
MAX_ERROR_CHARACTERS = 500
SPREAD_SECONDS = 5.0  # so that jobs that wait for the same thing do not all come back at once
Result = TypeVar("Result")


class Heartbeat:
    """Extends a lease from a thread with a connection of its own, three times in its length.

    It ends with the block, when the claim is lost, or when the work has taken longer than a task may: then the work
    hangs, and another worker takes it when the lease is over (reliability B2).
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lease_seconds = settings.ERL_REFLECTION_LEASE_SECONDS
        limit_seconds = get_kind(job.kind).time_limit_seconds or settings.CELERY_TASK_TIME_LIMIT
        # A limit on the beats, so that work that hangs cannot hold its job forever.
        self._beats_left = int(limit_seconds / self._lease_seconds * BEATS_PER_LEASE)
        # By a monotonic clock, which does not jump when the time of day is set.
        self._held_until = time.monotonic() + self._lease_seconds
        self._stop = Event()
        self._lost = Event()
        self._thread = Thread(target=self._beat, name=f"heartbeat-{job.pk}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=self._lease_seconds)

    def ensure_held(self) -> None:
        """Raise `LostClaim` where another worker holds the job, or may: this process was held up beyond its lease."""
        # A process that was paused may not know yet that its lease is over, so the time counts as well.
        if self._lost.is_set() or time.monotonic() > self._held_until:
            raise LostClaim("Another worker holds this job now.")

    def _beat(self) -> None:
        used = False
        try:
            while self._beats_left > 0 and not self._stop.wait(self._lease_seconds / BEATS_PER_LEASE):
                self._beats_left -= 1
                used = True
                if not self._extend():
                    return
        finally:
            if used:
                # Django's connections belong to threads, and this thread ends here.
                connection.close()

    def _extend(self) -> bool:
        """Return whether to continue. A database that does not answer now may answer at the next beat."""
        # Taken before the statement: the lease counts from when the database ran it, which is later.
        asked_at = time.monotonic()
        try:
            held = extend_lease(self._job, lease_seconds=self._lease_seconds)
        except (DatabaseError, InterfaceError) as error:
            log.warning("lease_not_extended", job_id=str(self._job.pk), error=type(error).__name__)
            connection.close()
            return True
        if not held:
            log.warning("claim_lost", job_id=str(self._job.pk), attempts=self._job.attempts)
            self._lost.set()
        else:
            self._held_until = asked_at + self._lease_seconds
        return held


class Outcome(StrEnum):
    """What became of an attempt."""

    NOTHING = "nothing"  # nothing could be claimed
    DONE = "done"
    RETRY = "retry"
    DEFERRED_BUDGET = "deferred_budget"
    DEAD = "dead"
    LOST = "lost"  # another worker holds it now; nothing was written
    HANDED_OVER = "handed_over"  # it waits for something without a task, and this process still holds it


class HandedOver(Exception):
    """The work waits elsewhere in this process, which holds the job on."""


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
            except HandedOver:
                return Outcome.HANDED_OVER, None
            except Exception as error:
                # The row says what went wrong, and the next job runs.
                return Outcome(give_back(job, error)), None
            except BaseException:
                # The process is being stopped, for which the job is not to blame: it loses no attempt.
                with suppress(LostClaim, DatabaseError, InterfaceError):
                    postpone(job, code="interrupted", message=f"The worker was stopped. The {job.kind} goes on.")
                raise
    except (LostClaim, DatabaseError, InterfaceError) as error:
        # Without the database nothing can be written: the lease ends and another worker takes the job.
        log.warning(job.event("lost"), error=type(error).__name__)
        return Outcome.LOST, None


def give_back(job: Job, error: Exception) -> str:
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
        # Without a time to wait, the job is due at once, so a worker is told at once.
        case NotNow(wait_seconds=None):
            postpone(job, code=error.code, message=str(error))
            sender.send_job(job.pk, job.kind)
        case NotNow(wait_seconds=float(wait_seconds)):
            # Many jobs wait for the same circuit: spread out, they do not all come back together.
            later = wait_seconds + random.uniform(0, SPREAD_SECONDS)  # noqa: S311 - no secret
            postpone(job, wait_seconds=later, code=error.code, message=str(error))
        case ReflectionError():
            fail(
                job,
                code=error.code,
                # The words of a provider may quote the prompt, so they are redacted and cut before they are kept.
                message=redact(str(error)).value[:MAX_ERROR_CHARACTERS],
                transient=error.transient,
                retry_after_seconds=getattr(error, "retry_after_seconds", None),
            )
        case OperationalError(__cause__=LockNotAvailable() | DeadlockDetected()):
            # The process that holds the row may hang. PostgreSQL ends its transaction in time; the job is not to blame.
            message = f"Another transaction held a row that the {job.kind} needs. It goes on in a few seconds."
            postpone(job, wait_seconds=random.uniform(1, SPREAD_SECONDS), code="locked", message=message)  # noqa: S311
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
    # The last line of our own code tells more than one deep inside a library.
    ours = [location for location, frame in zip(where, frames, strict=True) if "site-packages" not in frame.filename]
    kind = type(error).__name__
    log.error(job.event("crashed"), error=kind, where=where[-8:])
    message = f"An unexpected {kind} stopped it at {ours[-1]}. The worker's log has more at {job.kind}_crashed."
    fail(job, code="unexpected_error", message=message, transient=True)
