"""What the workers do: the Celery tasks, the kinds of jobs, and the periodic work of this app and the memory.

A message names a job, and the row is the work.
"""

from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings

from memory import housekeeping
from memory.housekeeping import PeriodicWork
from reflection.consolidation import models as consolidation
from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.requests import request_due_consolidations, request_nightly_consolidations
from reflection.jobs.doorbell import doorbell
from reflection.jobs.kinds import JobKind, get_kind
from reflection.jobs.models import Job
from reflection.jobs.periodic import run_due_work
from reflection.jobs.queue import find_first
from reflection.jobs.sweeper import find_overdue_jobs, nudge
from reflection.jobs.workers import forget_old_workers, owner_name, record_claim, worker_name
from reflection.llm.budget import resume_projects
from reflection.reflectors import models as reflectors
from reflection.reflectors.reflections import run_reflection
from reflection.webhooks import models as webhooks
from reflection.webhooks.delivery import MOST_ATTEMPTS, delete_old_deliveries, run_delivery

CONSOLIDATION_SECONDS = 900
log = structlog.get_logger(__name__)

KINDS = (
    JobKind(name=reflectors.KIND, run=run_reflection, command="run_reflections"),
    # Beside evaluations, so that agents and reflections do not wait for it. What a stage found is kept, and so are the
    # model's answers, so a further attempt goes on where the time was up.
    JobKind(
        name=consolidation.KIND,
        run=run_consolidation,
        queue=settings.ERL_EVALUATION_QUEUE,
        time_limit_seconds=CONSOLIDATION_SECONDS,
    ),
    JobKind(name=webhooks.KIND, run=run_delivery, most_attempts=MOST_ATTEMPTS),
)
PERIODIC = (
    PeriodicWork("raised budgets", timedelta(seconds=4), resume_projects),
    *housekeeping.PERIODIC,
    PeriodicWork("due consolidations", timedelta(seconds=4), request_due_consolidations),
    PeriodicWork("nightly consolidations", timedelta(minutes=1), request_nightly_consolidations),
    PeriodicWork("old webhook deliveries", timedelta(hours=1), delete_old_deliveries),
    PeriodicWork("old workers", timedelta(minutes=1), forget_old_workers),
    PeriodicWork("search indexes", timedelta(hours=1), partial(doorbell.send, "memory.tasks.tune_retrieval")),
)


@shared_task(ignore_result=True)
def run_job(job_id: str) -> None:
    """Run one job. Does nothing where another worker has it or nothing is left to do.

    One that goes last lets another go first; its message is sent again.
    """
    try:
        id = UUID(job_id)
    except ValueError:
        log.error("message_not_understood")
        return
    job = Job.objects.only("kind", "goes_last").filter(pk=id).first()
    kind = get_kind(job.kind) if job else None
    if kind is None or not kind.queue:  # a message in the default queue: this worker gets what it should get
        record_claim(worker_name())
    if job is None or kind is None:
        return
    first = find_first(job) if job.goes_last else id
    if first != id:
        doorbell.ring(id, kind.name)
    kind.run(first, owner=owner_name())


@shared_task(ignore_result=True)
def sweep() -> None:
    """Ring for what is due and run the periodic work, as the thread in every worker asks, or a scheduler."""
    nudge(find_overdue_jobs())
    run_due_work()
