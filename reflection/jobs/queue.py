"""The queue of jobs: rows in PostgreSQL, claimed for a while, with the number of the attempt as fence.

Every change of state is one conditional statement whose row count decides. A worker that lost its claim is told by
`LostClaim` and has written nothing (reliability B1-B3, B8, B9).
"""

import random
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, TypeVar, cast
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, Q
from django.db.models.functions import Now

from memory.after_commit import after_commit
from memory.database_clock import NextUtcDay
from memory.insert_once import insert_once
from reflection.errors import BudgetExhausted, LostClaim
from reflection.jobs.kinds import get_kind
from reflection.jobs.messages import sender
from reflection.jobs.models import Job, JobQuerySet

log = structlog.get_logger(__name__)

MAX_BACKOFF_SECONDS = 300.0
LAST_FOR_SECONDS = 3600.0  # a job that goes last does so for an hour, so that it is taken at all
WORKER_LOST_CODE = "worker_lost"
WORKER_LOST = (
    "Every worker that took this {kind} died or hung, most recently on attempt {attempts}. Check the workers' logs for "
    "how much memory or time it needed, then queue it again."
)
GIVEN_BACK = "The worker process died; another one has taken over."

_AnyJob = TypeVar("_AnyJob", bound=Job)
_Status = Job.Status
_WAITS = "status IN ('queued', 'retry', 'deferred_budget') AND available_at <= statement_timestamp()"
_LEASE_IS_OVER = "status = 'running' AND lease_until < statement_timestamp()"
# One statement, so that two workers cannot choose the same row. Rows that another worker is taking are skipped. An
# abandoned row goes first, because it has waited longest. A row that has used its attempts is not tried again: its
# workers died of it.
_CLAIM = """
WITH {candidates}
UPDATE reflection_job j SET
    status = CASE WHEN j.attempts < %(max_attempts)s THEN 'running' ELSE 'dead' END,
    lease_until = CASE WHEN j.attempts < %(max_attempts)s
        THEN statement_timestamp() + make_interval(secs => %(lease_seconds)s) END,
    lease_owner = CASE WHEN j.attempts < %(max_attempts)s THEN %(owner)s ELSE j.lease_owner END,
    started_at = coalesce(j.started_at, statement_timestamp()),
    finished_at = CASE WHEN j.attempts < %(max_attempts)s THEN NULL ELSE statement_timestamp() END,
    last_error_code = CASE WHEN j.attempts >= %(max_attempts)s AND j.status = 'running'
        THEN %(lost_code)s ELSE j.last_error_code END,
    last_error = CASE WHEN j.attempts >= %(max_attempts)s
        AND (j.status = 'running' OR j.last_error_code = %(lost_code)s)
        THEN replace(%(lost)s, '{{attempts}}', j.attempts::text) ELSE j.last_error END,
    attempts = j.attempts + CASE WHEN j.attempts < %(max_attempts)s THEN 1 ELSE 0 END
WHERE j.id = coalesce((SELECT id FROM abandoned), (SELECT id FROM waiting))
RETURNING {columns}
"""
_OLDEST = f"""
abandoned AS (SELECT id FROM reflection_job WHERE kind = %(kind)s AND {_LEASE_IS_OVER}
              ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED),
waiting AS (SELECT id FROM reflection_job WHERE kind = %(kind)s AND {_WAITS}
            ORDER BY goes_last AND available_at > statement_timestamp() - make_interval(secs => %(patience)s),
                available_at LIMIT 1 FOR UPDATE SKIP LOCKED)
"""  # noqa: S608 - constants of this module
_BY_ID = f"""
abandoned AS (SELECT id FROM reflection_job WHERE id = %(id)s AND kind = %(kind)s AND ({_LEASE_IS_OVER} OR {_WAITS})
              FOR UPDATE SKIP LOCKED),
waiting AS (SELECT NULL::uuid AS id)
"""  # noqa: S608 - constants of this module
_RELEASE = """
UPDATE reflection_job SET status = 'retry', available_at = statement_timestamp(), lease_until = NULL,
    last_error_code = %s, last_error = %s
WHERE status = 'running' AND lease_owner = ANY(%s) RETURNING id, kind
"""
_COLUMNS = ", ".join(f'j."{field.column}"' for field in Job._meta.concrete_fields)
_CLAIM_OLDEST = _CLAIM.format(candidates=_OLDEST, columns=_COLUMNS)
_CLAIM_BY_ID = _CLAIM.format(candidates=_BY_ID, columns=_COLUMNS)


@transaction.atomic(savepoint=False)
def enqueue(job: _AnyJob) -> _AnyJob:
    """Queue a job, or return the live job of its kind that is about the same.

    It belongs to the caller's transaction; the workers are told once that is committed.
    """
    # Waits for a transaction that is queueing or finishing the same, so that two callers make one row.
    while not insert_once(job, made={"available_at": "statement_timestamp()"}):
        same = Job.objects.live().filter(project_id=job.project_id, kind=job.kind, subject=job.subject)
        # Without a row, the job was finished between the two statements.
        if (live := same.first()) is not None:
            after_commit(sender.send_job, live.pk, live.kind)
            return cast(_AnyJob, type(job)._default_manager.get(pk=live.pk))
    after_commit(sender.send_job, job.pk, job.kind)
    return job


def claim(
    kind: str,
    job_id: UUID | None = None,
    *,
    owner: str,
    model: type[_AnyJob] = Job,  # type: ignore[assignment]  # the default of a type variable
    lease_seconds: float | None = None,
) -> _AnyJob | None:
    """Take one job, or the one of its kind that is due longest, for `lease_seconds`; None where nothing can be taken.

    It is returned as `model`, the proxy of its kind where there is one.

    Each claim raises `attempts`, the fence. A row that has used all attempts is marked dead instead.
    """
    parameters = {
        "id": job_id,
        "kind": kind,
        "owner": owner,
        "lease_seconds": lease_seconds or settings.ERL_REFLECTION_LEASE_SECONDS,
        "max_attempts": _most_attempts(kind),
        "lost_code": WORKER_LOST_CODE,
        "lost": WORKER_LOST.replace("{kind}", kind),
        "patience": LAST_FOR_SECONDS,
    }
    statement = _CLAIM_OLDEST if job_id is None else _CLAIM_BY_ID
    # A row that has used its attempts is marked dead and not returned, so the next one is tried.
    while True:
        with transaction.atomic():
            rows = cast(Iterable[_AnyJob], model._default_manager.raw(statement, parameters))
            job = next(iter(rows), None)
            if job is None or job.status == _Status.RUNNING:
                return job
            get_kind(kind).give_up(job)
        log.error(job.event("dead"), job_id=str(job.pk), code=job.last_error_code)
        # One job alone was asked for, and it is dead now.
        if job_id is not None:
            return None


def find_first(job: Job) -> UUID:
    """Return what to take in place of a job that goes last: the one of its kind that is due longest and does not.

    That is the job itself where none waits, or where it has waited long enough.
    """
    since = Now() - timedelta(seconds=LAST_FOR_SECONDS)
    goes_last = Job.objects.waiting().filter(pk=job.pk, available_at__gt=since)
    others = Job.objects.waiting().filter(Exists(goes_last), kind=job.kind, goes_last=False)
    return others.order_by("available_at").values_list("pk", flat=True).first() or job.pk


def extend_lease(job: Job, *, lease_seconds: float) -> bool:
    """Hold a claimed job for another `lease_seconds`; False where it is no longer ours."""
    return bool(_ours(job).update(lease_until=Now() + timedelta(seconds=lease_seconds)))


def set_aside(lead: Job, others: JobQuerySet[Any], *, seconds: float) -> list[UUID]:
    """Keep waiting jobs from other workers while a claimed job does their work, too; return those that were free.

    They stay queued, and are due again after `seconds`: where the claimed job fails, or its worker dies, each is
    carried out as if nothing had happened. Jobs that the same job set aside in an earlier attempt are taken again.
    """
    ours = Q(result__carried_by=str(lead.pk), status__in=Job.WAITING)
    with transaction.atomic():
        free = others.filter(ours | Q(pk__in=Job.objects.waiting().values("pk"))).exclude(pk=lead.pk)
        jobs = list(free.select_for_update(of=("self",), skip_locked=True))
        for job in jobs:
            result = job.result | {"carried_by": str(lead.pk)}
            Job.objects.filter(pk=job.pk).update(result=result, available_at=Now() + timedelta(seconds=seconds))
    return [job.pk for job in jobs]


def finish_carried(lead: Job, ids: Collection[UUID], **members: Any) -> int:
    """Mark jobs done that a claimed job did, in the transaction of its effect; return how many still waited for it.

    Another worker may have taken one whose time came; it does that one again.
    """
    waiting = Job.objects.filter(pk__in=ids, status__in=Job.WAITING, result__carried_by=str(lead.pk))
    jobs = list(waiting.order_by("pk").select_for_update())
    for job in jobs:
        Job.objects.filter(pk=job.pk).update(
            status=_Status.DONE,
            result=job.result | members,
            last_error_code="",
            last_error="",
            started_at=lead.started_at,
            finished_at=Now(),
        )
    return len(jobs)


def hold(job: Job) -> None:
    """Hold a claimed job until the caller's transaction ends, so that no other worker can take it before then.

    Raises:
        LostClaim: another worker holds it, or it is gone.
    """
    if not _ours(job).select_for_update().exists():
        raise LostClaim("Another worker holds this job now, so nothing was written.")


def note(job: Job, **members: Any) -> None:
    """Add members to the result of a claimed job.

    Raises:
        LostClaim: another worker holds it.
    """
    job.result = job.result | members
    if not _ours(job).update(result=job.result):
        raise LostClaim("Another worker holds this job now, so nothing was written.")


def finish(job: Job, **members: Any) -> None:
    """Mark a claimed job done, in the transaction of its effect; `members` are added to its result.

    Raises:
        LostClaim: another worker holds it; the transaction has to be rolled back.
    """
    job.result = job.result | members
    _move(job, status=_Status.DONE, result=job.result, last_error_code="", last_error="", finished_at=Now())


def fail(job: Job, *, code: str, message: str, transient: bool, retry_after_seconds: float | None = None) -> str:
    """Put a claimed job back for later, or give it up; return its new status.

    `message` is a sentence for the operator and holds no text of a run.

    Raises:
        LostClaim: another worker holds it.
    """
    if transient and job.attempts < _most_attempts(job.kind):
        delay = backoff_seconds(job.attempts, retry_after_seconds=retry_after_seconds)
        # By the database's clock, as workers' clocks differ.
        later = Now() + timedelta(seconds=delay)
        _move(job, status=_Status.RETRY, available_at=later, last_error_code=code, last_error=message)
        log.warning(job.event("retried_later"), code=code, attempts=job.attempts, delay_seconds=round(delay, 1))
    else:
        with transaction.atomic():
            _move(job, status=_Status.DEAD, last_error_code=code, last_error=message, finished_at=Now())
            get_kind(job.kind).give_up(job)
        log.error(job.event("dead"), code=code, attempts=job.attempts)
    return job.status


def postpone(job: Job, *, wait_seconds: float = 0.0, code: str = "", message: str = "") -> str:
    """Give a claimed job back for `wait_seconds` without counting the attempt; return its new status.

    Raises:
        LostClaim: another worker holds it.
    """
    # The number goes down only here and in `defer`, by the worker that holds it, so that no two workers hold the same.
    until = Now() + timedelta(seconds=wait_seconds)
    changes = {"available_at": until, "attempts": F("attempts") - 1, "last_error_code": code, "last_error": message}
    _move(job, status=_Status.RETRY, **changes)
    return job.status


def defer(job: Job, *, message: str) -> int:
    """Let a claimed job wait for the budget of the next UTC day, and with it all that is due in its project.

    No attempt is counted. Return how many jobs were deferred.

    Raises:
        LostClaim: another worker holds it.
    """
    deferred = {
        "status": _Status.DEFERRED_BUDGET,
        "available_at": NextUtcDay(),
        "last_error_code": BudgetExhausted.code,
        "last_error": message,
    }
    _move(job, attempts=F("attempts") - 1, **deferred)
    # The others of the project would find the budget used up as well, one after the other.
    same = Job.objects.waiting().filter(project_id=job.project_id, kind=job.kind, status=_Status.QUEUED)
    return 1 + same.update(**deferred)


def release_claims(owners: Collection[str]) -> list[tuple[UUID, str]]:
    """Give back what processes that are gone held, so that leases need not run out; return the jobs and their kinds."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, [WORKER_LOST_CODE, GIVEN_BACK, list(owners)])
        return [(job_id, kind) for job_id, kind in cursor.fetchall()]


def backoff_seconds(attempts: int, *, retry_after_seconds: float | None = None) -> float:
    """Return how long to wait after the given number of attempts: doubling from 2 s to 300 s, with equal jitter.

    Never earlier than the provider asked for, and a little later at random, so that many do not come back at once.
    """
    backoff = min(MAX_BACKOFF_SECONDS, 2 * 2.0 ** (attempts - 1)) * random.uniform(0.5, 1)  # noqa: S311 - jitter
    if retry_after_seconds is None:
        return backoff
    # Only ever later than the provider asked: coming back early would be refused again.
    return max(backoff, retry_after_seconds * random.uniform(1, 1.1))  # noqa: S311 - jitter


def _most_attempts(kind: str) -> int:
    return get_kind(kind).most_attempts or int(settings.ERL_REFLECTION_MAX_ATTEMPTS)


def _ours(job: Job) -> JobQuerySet[Job]:
    # The number of attempts is the fence: a worker that lost its claim holds an older one and changes no row.
    return Job.objects.filter(pk=job.pk, attempts=job.attempts, status=_Status.RUNNING)


def _move(job: Job, **changes: Any) -> None:
    """Leave the running state if the fence still holds."""
    if not _ours(job).update(**changes, lease_until=None):
        raise LostClaim("Another worker holds this job now, so nothing was written.")
    job.status = str(changes["status"])
