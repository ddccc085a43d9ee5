"""The Celery tasks: a message names a job, and the row is the work."""

from uuid import UUID

import structlog
from celery import shared_task

from reflection.jobs.kinds import get_kind
from reflection.jobs.models import Job
from reflection.jobs.periodic import run_due_work
from reflection.jobs.sweeper import find_overdue_jobs, nudge
from reflection.jobs.workers import owner_name, record_claim, worker_name

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def run_job(job_id: str) -> None:
    """Run one job. Does nothing where another worker has it or nothing is left to do."""
    try:
        id = UUID(job_id)
    except ValueError:
        log.error("message_not_understood")
        return
    kind_name: str | None = Job.objects.filter(pk=id).values_list("kind", flat=True).first()
    kind = get_kind(kind_name) if kind_name else None
    if kind is None or not kind.queue:  # a message in the default queue: this worker gets what it should get
        record_claim(worker_name())
    if kind is not None:
        kind.run(id, owner=owner_name())


@shared_task(ignore_result=True)
def sweep() -> None:
    """Ring for what is due and run the periodic work, as the thread in every worker asks, or a scheduler."""
    nudge(find_overdue_jobs())
    run_due_work()
