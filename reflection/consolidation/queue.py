"""The queue of consolidations: rows in PostgreSQL, claimed for a while, with the number of the attempt as fence."""

from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.consolidation.models import ConsolidationRun
from reflection.errors import LostClaim
from reflection.jobs.doorbell import CONSOLIDATE, doorbell
from reflection.jobs.queue import MAX_BACKOFF_SECONDS
from reflection.models import ModelCall

log = structlog.get_logger(__name__)

# A run whose transaction took long was dated before the last consolidation and seen after it; reading it twice is free.
OVERLAP = timedelta(minutes=2)
POLICY = Actor.policy("consolidation")

_Status = ConsolidationRun.Status


@transaction.atomic
def request_consolidation(project: Project, *, cause: str, by: Actor, again: bool = False) -> ConsolidationRun:
    """Queue a consolidation of what is new in a project, or return the one that is queued or running.

    Args:
        again: read everything, not only what is new.
    """
    while True:
        last = (
            ConsolidationRun.objects.for_project(project).filter(status=_Status.DONE).aggregate(at=Max("until"))["at"]
        )
        since = None if again or last is None else last - OVERLAP
        new = ConsolidationRun(
            project=project, cause=cause, since=since, until=timezone.now(), available_at=Now(), requested_by=by.label
        )
        ConsolidationRun.objects.bulk_create([new], ignore_conflicts=True)
        run = ConsolidationRun.objects.for_project(project).live().first()
        if run is not None:  # otherwise it was finished between the two statements
            break
    transaction.on_commit(partial(doorbell.send, CONSOLIDATE, str(run.pk)), robust=True)
    return run


def request_due_consolidations(*, nightly: bool = False) -> list[ConsolidationRun]:
    """Queue a consolidation of every project with enough new runs; at night of every project with any."""
    least = 1 if nightly else settings.ERL_CONSOLIDATE_EVERY
    if least < 1:
        return []
    done = ConsolidationRun.objects.filter(project=OuterRef("pk"), status=_Status.DONE)
    last = done.order_by().values("project").annotate(at=Max("until")).values("at")
    beginning = Value(datetime(2000, 1, 1, tzinfo=UTC))
    recorded = Trajectory.objects.filter(project=OuterRef("pk"), created_at__gt=Coalesce(OuterRef("last"), beginning))
    new = recorded.order_by().values("project").annotate(count=Count("pk")).values("count")
    projects = (
        Project.objects.exclude(pk__in=ConsolidationRun.objects.live().values("project"))
        .annotate(last=Subquery(last))
        .annotate(new=Coalesce(Subquery(new), 0))
        .filter(new__gte=least)
    )
    cause = ConsolidationRun.Cause.NIGHTLY if nightly else ConsolidationRun.Cause.EPISODES
    return [request_consolidation(project, cause=cause, by=POLICY) for project in projects]


def request_nightly_consolidations() -> list[ConsolidationRun]:
    """Queue the consolidations of the night, once a day, at the first look in the configured hour."""
    hour = settings.ERL_CONSOLIDATE_HOUR_UTC
    now = timezone.now()
    if hour < 0 or now.hour != hour:
        return []
    start = now.replace(minute=0, second=0, microsecond=0)
    if ConsolidationRun.objects.filter(cause=ConsolidationRun.Cause.NIGHTLY, created_at__gte=start).exists():
        return []
    return request_due_consolidations(nightly=True)


@transaction.atomic
def claim(run_id: UUID | None = None, *, owner: str, lease_seconds: float | None = None) -> ConsolidationRun | None:
    """Take one consolidation, or the one that has waited longest; None where there is nothing to take.

    One that has used up its attempts is marked dead on the way.
    """
    due = ConsolidationRun.objects.due().select_for_update(skip_locked=True, of=("self",)).order_by("available_at")
    for run in due.filter(pk=run_id) if run_id else due[:10]:
        if run.attempts >= settings.ERL_REFLECTION_MAX_ATTEMPTS:
            run.status, run.finished_at, run.lease_until = _Status.DEAD, timezone.now(), None
            run.last_error_code = run.last_error_code or "worker_lost"
            run.last_error = run.last_error or "Every worker that took this consolidation died or hung."
            run.save()
            log.error("consolidation_dead", consolidation_id=str(run.pk), code=run.last_error_code)
            continue
        lease = timedelta(seconds=lease_seconds or settings.ERL_REFLECTION_LEASE_SECONDS)
        ConsolidationRun.objects.filter(pk=run.pk).update(
            status=_Status.RUNNING,
            lease_owner=owner,
            lease_until=Now() + lease,
            started_at=Coalesce("started_at", Now()),
            attempts=F("attempts") + 1,
        )
        return ConsolidationRun.objects.select_related("project").get(pk=run.pk)
    return None


def extend_lease(run: ConsolidationRun, *, lease_seconds: float) -> bool:
    """Hold a claimed consolidation for another `lease_seconds`; False where it is no longer ours."""
    ours = ConsolidationRun.objects.filter(pk=run.pk, attempts=run.attempts, status=_Status.RUNNING)
    return bool(ours.update(lease_until=Now() + timedelta(seconds=lease_seconds)))


def lock_claimed(run: ConsolidationRun) -> ConsolidationRun:
    """Read a claimed consolidation again and hold it until the transaction ends.

    Raises:
        LostClaim: somebody else holds it, or it is gone.
    """
    ours = ConsolidationRun.objects.select_for_update(of=("self",)).select_related("project")
    row = ours.filter(pk=run.pk, attempts=run.attempts, status=_Status.RUNNING).first()
    if row is None:
        raise LostClaim("Somebody else holds this consolidation now, so nothing was written.")
    return row


@transaction.atomic
def leave(run: ConsolidationRun, *, status: str, code: str = "", message: str = "", count_attempt: bool = True) -> str:
    """End an attempt: done, dead, or back to the queue for later; return the status.

    Raises:
        LostClaim: somebody else holds it.
    """
    row = lock_claimed(run)
    if status == _Status.RETRY and count_attempt and row.attempts >= settings.ERL_REFLECTION_MAX_ATTEMPTS:
        status = _Status.DEAD
    delay = min(MAX_BACKOFF_SECONDS, 2.0**row.attempts) if count_attempt else 0
    spent = ModelCall.objects.filter(consolidation=row).aggregate(
        input_tokens=Sum("input_tokens", default=0),
        output_tokens=Sum("output_tokens", default=0),
        cost_usd=Sum("cost_usd", default=0),
    )
    ConsolidationRun.objects.filter(pk=row.pk).update(
        status=status,
        lease_until=None,
        available_at=Now() + timedelta(seconds=delay),
        attempts=F("attempts") if count_attempt or status != _Status.RETRY else F("attempts") - 1,
        finished_at=Now() if status in (_Status.DONE, _Status.DEAD) else None,
        last_error_code=code,
        last_error=message,
        **spent,
    )
    run.status = status
    return status


def new_trajectories(run: ConsolidationRun) -> Q:
    """Return what tells the runs a consolidation is about from the others."""
    if run.since is None:
        return Q(created_at__lte=run.until)
    return Q(created_at__gt=run.since, created_at__lte=run.until) | Q(
        outcome_at__gt=run.since, created_at__lte=run.until
    )


def count_new_episodes(run: ConsolidationRun) -> int:
    return Trajectory.objects.for_project(run.project).filter(new_trajectories(run)).count()


def ring_for_due_consolidations() -> None:
    """Tell the workers about consolidations that wait, or whose worker is gone."""
    for run_id in ConsolidationRun.objects.due().order_by("available_at").values_list("pk", flat=True)[:10]:
        if not doorbell.send(CONSOLIDATE, str(run_id), expires_seconds=60):
            return
