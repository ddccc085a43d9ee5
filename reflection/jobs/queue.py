"""The queue of reflections: rows in PostgreSQL, claimed for a while, with the number of the attempt as fence.

Every change of state is one conditional statement that counts its rows. Whoever is fenced out learns it from
`LostClaim` and has written nothing (reliability B1-B3, B8, B9).
"""

import random
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Now

from memory.errors import QueueFull
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from reflection.errors import LostClaim, StillQueued
from reflection.jobs.doorbell import doorbell
from reflection.models import ModelCall, Reflection, ReflectionQuerySet

log = structlog.get_logger(__name__)

MAX_WAITING = 10_000  # reflections of a project, before its clients get 429
MAX_BACKOFF_SECONDS = 300.0
WORKER_LOST_CODE = "worker_lost"
WORKER_LOST = (
    "Every worker that took this reflection died or hung, the last at attempt {attempts}. Look into the workers' "
    "logs for the memory or time it needed, then queue it again."
)

_COLUMNS = ", ".join(f'r."{field.column}"' for field in Reflection._meta.concrete_fields)
_WAITS = "status IN ('queued', 'retry', 'deferred_budget') AND available_at <= statement_timestamp()"
_LEASE_IS_OVER = "status = 'running' AND lease_until < statement_timestamp()"
# One statement: choosing and taking a row cannot be divided. Rows that others are taking are passed over. A lost row
# goes first, because it has waited longest. One that used up its attempts is not tried again: it killed its workers.
_CLAIM = """
WITH {candidates}
UPDATE reflection_reflection r SET
    status = CASE WHEN r.attempts < %(max_attempts)s THEN 'running' ELSE 'dead' END,
    lease_until = CASE WHEN r.attempts < %(max_attempts)s
        THEN statement_timestamp() + make_interval(secs => %(lease_seconds)s) END,
    lease_owner = CASE WHEN r.attempts < %(max_attempts)s THEN %(owner)s ELSE r.lease_owner END,
    started_at = coalesce(r.started_at, statement_timestamp()),
    finished_at = CASE WHEN r.attempts < %(max_attempts)s THEN NULL ELSE statement_timestamp() END,
    last_error_code = CASE WHEN r.attempts >= %(max_attempts)s AND r.status = 'running'
        THEN %(lost_code)s ELSE r.last_error_code END,
    last_error = CASE WHEN r.attempts >= %(max_attempts)s AND r.status = 'running'
        THEN replace(%(lost)s, '{{attempts}}', r.attempts::text) ELSE r.last_error END,
    attempts = r.attempts + CASE WHEN r.attempts < %(max_attempts)s THEN 1 ELSE 0 END
WHERE r.id = coalesce((SELECT id FROM lost), (SELECT id FROM waiting))
RETURNING {columns}
"""
_OLDEST = f"""
lost AS (SELECT id FROM reflection_reflection WHERE {_LEASE_IS_OVER}
         ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED),
waiting AS (SELECT id FROM reflection_reflection WHERE {_WAITS}
            ORDER BY available_at LIMIT 1 FOR UPDATE SKIP LOCKED)
"""  # noqa: S608 - constants of this module
_BY_ID = f"""
lost AS (SELECT id FROM reflection_reflection WHERE id = %(id)s AND ({_LEASE_IS_OVER} OR {_WAITS})
         FOR UPDATE SKIP LOCKED),
waiting AS (SELECT NULL::uuid AS id)
"""  # noqa: S608 - constants of this module
_CLAIM_OLDEST = _CLAIM.format(candidates=_OLDEST, columns=_COLUMNS)
_CLAIM_BY_ID = _CLAIM.format(candidates=_BY_ID, columns=_COLUMNS)


def enqueue_reflection(trajectory: Trajectory, *, by: Actor, request_id: str = "", traceparent: str = "") -> Reflection:
    """Queue a reflection of a run in the caller's transaction, or return the one that is queued or running.

    The workers are told once the transaction is committed.

    Raises:
        QueueFull: an API client asks, and too many reflections of the project wait (reliability B11).
    """
    if by.api_key_id is not None:
        _refuse_if_full(trajectory)
    while True:
        new = Reflection(
            project_id=trajectory.project_id,
            trajectory=trajectory,
            available_at=Now(),
            requested_by=by.label,
            request_id=request_id,
            traceparent=traceparent,
        )
        # Waits for whoever is queueing or finishing one of this run, so that two callers make one row.
        Reflection.objects.bulk_create([new], ignore_conflicts=True)
        reflection = Reflection.objects.live().filter(project_id=new.project_id, trajectory=trajectory).first()
        if reflection is not None:  # otherwise it was finished between the two statements
            break
    transaction.on_commit(partial(doorbell.ring, reflection.pk), robust=True)
    return reflection


def _refuse_if_full(trajectory: Trajectory) -> None:
    limit = MAX_WAITING
    waiting = Reflection.objects.live().filter(project_id=trajectory.project_id).order_by("trajectory_id")
    if waiting.values_list("trajectory_id")[limit - 1 : limit]:
        raise QueueFull(
            f"{limit} reflections of this project wait already. Send the run with reflect: false, or again later."
        )


@transaction.atomic
def requeue_reflection(reflection: Reflection, *, by: Actor) -> Reflection:
    """Reflect on the run of a finished or dead reflection again, as a new row; the old one stays as it is.

    Raises:
        StillQueued: it is not finished.
    """
    reflection = Reflection.objects.select_related("trajectory").get(pk=reflection.pk)
    if reflection.status in Reflection.LIVE:
        raise StillQueued("This reflection is still queued or running. Wait until it is finished.")
    new = enqueue_reflection(
        reflection.trajectory, by=by, request_id=reflection.request_id, traceparent=reflection.traceparent
    )
    log.info("reflection_requeued", reflection_id=str(new.pk), after=str(reflection.pk), by=by.label)
    return new


def claim(reflection_id: UUID | None = None, *, owner: str, lease_seconds: float | None = None) -> Reflection | None:
    """Take one reflection, or the one due longest, for `lease_seconds`; None where there is nothing to take.

    Each claim raises `attempts`, the fence. A row that has used them all is marked dead on the way.
    """
    parameters = {
        "id": reflection_id,
        "owner": owner,
        "lease_seconds": lease_seconds or settings.ERL_REFLECTION_LEASE_SECONDS,
        "max_attempts": settings.ERL_REFLECTION_MAX_ATTEMPTS,
        "lost_code": WORKER_LOST_CODE,
        "lost": WORKER_LOST,
    }
    statement = _CLAIM_OLDEST if reflection_id is None else _CLAIM_BY_ID
    while True:
        rows = list(Reflection.objects.raw(statement, parameters))
        if not rows:
            return None
        reflection = rows[0]
        if reflection.status == Reflection.Status.RUNNING:
            return reflection
        log.error("reflection_dead", reflection_id=str(reflection.pk), code=reflection.last_error_code)
        if reflection_id is not None:
            return None


def extend_lease(reflection: Reflection, *, lease_seconds: float) -> bool:
    """Hold a claimed reflection for another `lease_seconds`; False where it is no longer ours."""
    until = Now() + timedelta(seconds=lease_seconds)
    return bool(_ours(reflection).update(lease_until=until))


def finish(reflection: Reflection, *, heuristics_proposed: int, skip_reason: str = "") -> None:
    """Mark a claimed reflection done, in the transaction of its effect.

    Raises:
        LostClaim: somebody else holds it; the transaction has to be rolled back.
    """
    _move(
        reflection,
        status=Reflection.Status.DONE,
        heuristics_proposed=heuristics_proposed,
        skip_reason=skip_reason,
        last_error_code="",
        last_error="",
        finished_at=Now(),
    )


def fail(
    reflection: Reflection, *, code: str, message: str, transient: bool, retry_after_seconds: float | None = None
) -> str:
    """Put a claimed reflection back for later, or give it up; return its new status.

    `message` is a sentence for the operator and holds no text of the run.

    Raises:
        LostClaim: somebody else holds it.
    """
    if transient and reflection.attempts < settings.ERL_REFLECTION_MAX_ATTEMPTS:
        delay = backoff_seconds(reflection.attempts, retry_after_seconds=retry_after_seconds)
        available_at = Now() + timedelta(seconds=delay)
        _move(
            reflection,
            status=Reflection.Status.RETRY,
            available_at=available_at,
            last_error_code=code,
            last_error=message,
        )
        log.warning("reflection_retried_later", code=code, attempts=reflection.attempts, delay_seconds=round(delay, 1))
    else:
        status = Reflection.Status.DEAD
        _move(reflection, status=status, last_error_code=code, last_error=message, finished_at=Now())
        log.error("reflection_dead", code=code, attempts=reflection.attempts)
    return reflection.status


def postpone(
    reflection: Reflection,
    *,
    until: object | None = None,
    for_budget: bool = True,
    code: str = "",
    message: str = "",
) -> str:
    """Give a claimed reflection back without counting the attempt; return its new status.

    With `until` (a time or an expression of the database) it waits, for budget or `for_budget=False` for something
    else; without it is due at once.

    Raises:
        LostClaim: somebody else holds it.
    """
    # The number goes down only here, by the one who holds it, so no number is ever held by two.
    waits_for_budget = until is not None and for_budget
    status = Reflection.Status.DEFERRED_BUDGET if waits_for_budget else Reflection.Status.RETRY
    _move(
        reflection,
        status=status,
        available_at=Now() if until is None else until,
        attempts=F("attempts") - 1,
        last_error_code=code,
        last_error=message,
    )
    return reflection.status


def release_claims(owner_prefix: str) -> int:
    """Give back what a worker that is gone held, so that nobody waits for its leases to end; return how many."""
    held = Reflection.objects.filter(status=Reflection.Status.RUNNING, lease_owner__startswith=owner_prefix)
    return held.update(status=Reflection.Status.RETRY, available_at=Now(), lease_until=None)


def backoff_seconds(attempts: int, *, retry_after_seconds: float | None = None) -> float:
    """Return how long to wait after the given number of attempts: doubling from 2 s to 300 s, with equal jitter.

    Never earlier than the provider asked for, and a little later at random, so that many do not come back at once.
    """
    backoff = min(MAX_BACKOFF_SECONDS, 2 * 2.0 ** (attempts - 1)) * random.uniform(0.5, 1)  # noqa: S311 - jitter
    if retry_after_seconds is None:
        return backoff
    return max(backoff, retry_after_seconds * random.uniform(1, 1.1))  # noqa: S311 - jitter


def _ours(reflection: Reflection) -> ReflectionQuerySet:
    return Reflection.objects.filter(pk=reflection.pk, attempts=reflection.attempts, status=Reflection.Status.RUNNING)


def _move(reflection: Reflection, **changes: object) -> None:
    """Leave the running state, with what the model calls cost, if the fence still holds."""
    spent = ModelCall.objects.filter(reflection=reflection).aggregate(
        input_tokens=Sum("input_tokens", default=0),
        output_tokens=Sum("output_tokens", default=0),
        cost_usd=Sum("cost_usd", default=0),
    )
    produced_by = {
        name: getattr(reflection, name) for name in ("reflector", "reflector_version", "prompt_version", "model")
    }
    if not _ours(reflection).update(**produced_by, **spent, lease_until=None, **changes):
        raise LostClaim("Somebody else holds this reflection now, so nothing was written.")
    reflection.status = str(changes["status"])
