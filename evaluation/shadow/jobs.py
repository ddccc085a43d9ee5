"""The job that compares the candidate with the stable release, minute by minute, after requests were answered.

The rows of the answers are the queue: a request does nothing for it. Once a minute, a project with a candidate and a
share to compare gets one job. It takes the whole minutes since the last, a share of their answers, and of these at most
so many a minute. Each minute is one transaction with its counts, so that a worker that dies counts none twice.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Max
from django.db.models.functions import Now

from evaluation.shadow.comparison import SHADOW, Compared, compare_answers
from memory.database_clock import database_now
from memory.releases.models import Deployment, Release
from memory.retrieval.models import Retrieval
from reflection.jobs.execution import Heartbeat, carry_out
from reflection.jobs.kinds import JobKind
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, enqueue, finish, hold
from runtime.models.changes import EvaluationRow, RowKind

log = structlog.get_logger(__name__)

KIND = "shadow"
SETTLED = timedelta(seconds=5)  # answers of a minute are all written this long after it
STALE = timedelta(minutes=15)  # older answers are dropped: too much has changed since
SPENT_SECONDS = 30.0  # from which a job leaves the rest to the next one
JOBS_KEPT = timedelta(days=1)
MINUTE = timedelta(minutes=1)

# The answers that either arm got since this pair of releases is on trial in shadow, by minute: how many, and the ids
# that the share chooses. The last digits of an id are random.
_MINUTES = """
SELECT date_trunc('minute', r.created_at), count(*),
    coalesce(array_agg(r.id ORDER BY r.created_at, r.id)
        FILTER (WHERE ('x' || right(r.id::text, 6))::bit(24)::int %% 1000 < %(share)s), '{}')
FROM memory_retrieval r
JOIN memory_deploymentevent e ON e.deployment_id = %(deployment)s AND e.version = r.deployment_version
WHERE r.project_id = %(project)s AND r.created_at >= %(since)s AND r.created_at < %(until)s
    AND r.arm IN ('stable', 'candidate') AND (e.state ->> 'shadow_share')::int > 0
    AND e.state ->> 'candidate_id' = %(candidate)s AND e.state ->> 'stable_id' = %(stable)s
GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Minute:
    """The answers of one minute, and those that the share chooses."""

    begins: datetime
    seen: int
    chosen: Sequence[UUID]


def queue_shadow_jobs() -> list[Job]:
    """Queue a job for every deployment that tries a candidate in shadow; forget the jobs of earlier days."""
    ended = Job.objects.filter(kind=KIND, status=Job.Status.DONE, finished_at__lt=Now() - JOBS_KEPT)
    ended.delete()
    on_trial = Deployment.objects.filter(candidate__isnull=False, shadow_share__gt=0).order_by("pk")
    return [
        enqueue(Job(kind=KIND, project_id=deployment.project_id, subject=str(deployment.pk))) for deployment in on_trial
    ]


def run_shadow(job_id: UUID | None = None, *, owner: str) -> Job | None:
    """Claim one job, or the one that is due longest, and carry it out; None where there is none."""
    job = claim(KIND, job_id, owner=owner)
    if job is None:
        return None
    carry_out(job, partial(_see_through, job))
    return Job.objects.filter(pk=job.pk).first()


def _see_through(job: Job, heartbeat: Heartbeat) -> None:
    started = time.monotonic()
    deployment = Deployment.objects.select_related("stable", "candidate").filter(pk=job.subject).first()
    if deployment and deployment.stable and deployment.candidate and deployment.shadow_share:
        releases = Compared.of(deployment.stable, deployment.candidate)
        now = database_now()
        for minute in _find_minutes(deployment, deployment.stable, deployment.candidate, now=now):
            # Comparing takes long; another worker may have the job by now.
            heartbeat.ensure_held()
            _compare_minute(job, minute, releases, most=deployment.shadow_per_minute, now=now)
            # The next job goes on with the rest, so that one project does not hold a worker.
            if time.monotonic() - started > SPENT_SECONDS:
                break
    finish(job)


def _find_minutes(deployment: Deployment, stable: Release, candidate: Release, *, now: datetime) -> Iterator[Minute]:
    """Yield the minutes that are over and were not compared yet, the oldest first."""
    done = EvaluationRow.objects.filter(
        kind=RowKind.MINUTE, project=deployment.project_id, stable=stable, candidate=candidate
    )
    last: datetime | None = done.aggregate(last=Max("at"))["last"]
    asked: dict[str, Any] = {
        "deployment": deployment.pk,
        "project": deployment.project_id,
        "share": deployment.shadow_share,
        "stable": str(stable.pk),
        "candidate": str(candidate.pk),
        "since": last + MINUTE if last else max(stable.created_at, candidate.created_at),
        # Whole minutes only, a little late: transactions that began in one may commit after it.
        "until": (now - SETTLED).replace(second=0, microsecond=0),
    }
    with connection.cursor() as cursor:
        cursor.execute(_MINUTES, asked)
        rows = cursor.fetchall()
    for begins, seen, chosen in rows:
        yield Minute(begins=begins, seen=seen, chosen=chosen)


def _compare_minute(job: Job, minute: Minute, releases: Compared, *, most: int, now: datetime) -> None:
    """Compare the answers of a minute, and write them with their counts, together or not at all."""
    taken = [] if now - minute.begins > STALE else minute.chosen[:most]
    rows = Retrieval.objects.filter(project=job.project_id, pk__in=taken).select_related("project")
    comparisons = [compare_answers(row, releases) for row in rows.order_by("created_at", "pk")]
    answers = [comparison for comparison in comparisons if comparison is not None]
    with transaction.atomic():
        hold(job)
        kept = set(Retrieval.objects.select_for_update(no_key=True).filter(pk__in=taken).values_list("pk", flat=True))
        counts = EvaluationRow(
            project_id=job.project_id,
            kind=RowKind.MINUTE,
            stable=releases.stable,
            candidate=releases.candidate,
            figures={
                "seen": minute.seen,
                "compared": len(answers),
                "dropped": len(minute.chosen) - len(taken),
                "skipped": len(taken) - len(answers),
            },
            at=minute.begins,
            made_by=SHADOW.label,
        )
        # Some may have been deleted meanwhile.
        since = [answer for answer in answers if answer.retrieval_id in kept]
        EvaluationRow.objects.bulk_create([*since, counts])


SHADOW_JOBS = JobKind(name=KIND, run=run_shadow, most_attempts=3)
