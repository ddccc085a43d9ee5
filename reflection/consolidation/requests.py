"""Queue consolidations: on request, after enough new runs, and every night."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import (
    Count,
    DateTimeField,
    Exists,
    ExpressionWrapper,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from memory.database_clock import database_now
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.consolidation.models import KIND, ConsolidationRun
from reflection.jobs.models import Job
from reflection.jobs.queue import enqueue
from reflection.reflectors.models import KIND as REFLECTION

# A run whose transaction took long is dated before the last consolidation but became visible after it. Reading a run
# twice costs nothing.
OVERLAP = timedelta(minutes=2)
LONGEST_REFLECTION = timedelta(days=2)  # from its queueing to its end
NIGHT_HOUR_UTC = 3
POLICY = Actor.policy("consolidation")

_Status = ConsolidationRun.Status
_ENDED = (_Status.DONE, _Status.DEAD)
_UNTIL = Cast(KT("payload__until"), DateTimeField())


@transaction.atomic
def request_consolidation(project: Project, *, cause: str, by: Actor, again: bool = False) -> ConsolidationRun:
    """Queue a consolidation of what is new in a project, or return the one that is queued or running.

    Args:
        again: read everything, not only what is new.
    """
    # Only what was finished counts: a run that died has perhaps not read all of its time.
    done = ConsolidationRun.objects.for_project(project).filter(status=_Status.DONE)
    last = None if again else done.aggregate(at=Max(_UNTIL))["at"]
    run = ConsolidationRun(
        kind=KIND,
        project=project,
        subject=str(project.pk),
        payload={
            "cause": cause,
            "since": None if last is None else (last - OVERLAP).isoformat(),
            "until": database_now().isoformat(),
        },
        requested_by=by.label,
    )
    return enqueue(run)


def request_due_consolidations(*, nightly: bool = False) -> list[ConsolidationRun]:
    """Queue a consolidation of every project with enough new runs; at night of every project with any.

    A run is new once its reflection has ended: before that, its lessons are not there to be compared.
    """
    least = 1 if nightly else settings.ERL_CONSOLIDATE_EVERY
    if least < 1:
        return []
    done = ConsolidationRun.objects.filter(project=OuterRef("pk"), status=_Status.DONE)
    last = done.order_by().values("project").annotate(at=Max(_UNTIL)).values("at")
    beginning = Value(datetime(2000, 1, 1, tzinfo=UTC))
    waiting = Job.objects.live().filter(kind=REFLECTION, trajectory=OuterRef("pk"))
    recorded = Trajectory.objects.filter(~Exists(waiting), project=OuterRef("pk"), created_at__gt=OuterRef("since"))
    # Of runs that the last consolidation read before their reflection had ended.
    late = Job.objects.filter(
        project=OuterRef("pk"),
        kind=REFLECTION,
        status__in=_ENDED,
        created_at__gt=ExpressionWrapper(OuterRef("since") - LONGEST_REFLECTION, output_field=DateTimeField()),
        finished_at__gt=OuterRef("since"),
        trajectory__created_at__lte=OuterRef("since"),
    )
    projects = (
        Project.objects.exclude(pk__in=ConsolidationRun.objects.live().values("project"))
        .annotate(since=Coalesce(Subquery(last), beginning))
        .annotate(new=_count(recorded, "pk") + _count(late, "subject"))
        .filter(new__gte=least)
    )
    cause = ConsolidationRun.Cause.NIGHTLY if nightly else ConsolidationRun.Cause.EPISODES
    return [request_consolidation(project, cause=cause, by=POLICY) for project in projects]


def _count(rows: QuerySet[Any], name: str) -> Coalesce:
    counts = rows.order_by().values("project").annotate(count=Count(name, distinct=True)).values("count")
    return Coalesce(Subquery(counts), 0)


def request_nightly_consolidations() -> list[ConsolidationRun]:
    """Queue the consolidations of the night, once a day, the first time this is called in its hour."""
    now = database_now()
    if now.hour != NIGHT_HOUR_UTC:
        return []
    start = now.replace(minute=0, second=0, microsecond=0)
    # Called more than once in the hour; the rows say whether this night was done.
    if ConsolidationRun.objects.filter(payload__cause=ConsolidationRun.Cause.NIGHTLY, created_at__gte=start).exists():
        return []
    return request_due_consolidations(nightly=True)


def new_trajectories(run: ConsolidationRun) -> Q:
    """Return the condition that selects the runs a consolidation is about."""
    if run.since is None:
        return Q(created_at__lte=run.until)
    return Q(created_at__gt=run.since, created_at__lte=run.until) | Q(
        # An outcome that came late makes an old run worth reading again.
        outcome_at__gt=run.since,
        created_at__lte=run.until,
    )


def count_new_episodes(run: ConsolidationRun) -> int:
    return Trajectory.objects.for_project(run.project).filter(new_trajectories(run)).count()
