"""What the workers do: the Celery tasks and the kinds of jobs of this app.

A message names a job, and the row is the work.
"""

from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings

from reflection.consolidation import models as consolidation
from reflection.consolidation.execution import run_consolidation
from reflection.imports.execution import IMPORT
from reflection.jobs.kinds import JobKind, get_kind, is_registered
from reflection.jobs.messages import sender
from reflection.jobs.models import Job
from reflection.jobs.queue import find_first
from reflection.jobs.resending import resend_due_jobs
from reflection.jobs.workers import owner_name
from reflection.reflectors import models as reflectors
from reflection.reflectors.reflections import run_reflection
from reflection.webhooks import models as webhooks
from reflection.webhooks.delivery import MOST_ATTEMPTS, run_delivery

CONSOLIDATION_SECONDS = 900
log = structlog.get_logger(__name__)

KINDS = (
    JobKind(name=reflectors.KIND, run=run_reflection),
    # Beside evaluations, so that agents and reflections do not wait for it. What a stage found is kept, and so are the
    # model's answers, so a further attempt goes on where the time was up.
    JobKind(
        name=consolidation.KIND,
        run=run_consolidation,
        queue=settings.ERL_EVALUATION_QUEUE,
        time_limit_seconds=CONSOLIDATION_SECONDS,
    ),
    JobKind(name=webhooks.KIND, run=run_delivery, most_attempts=MOST_ATTEMPTS),
    IMPORT,
)


@shared_task(ignore_result=True)
def run_job(job_id: str) -> None:
    """Run one job. Does nothing where another worker has it, nothing is left to do, or its kind is of another version.

    One that goes last lets another go first; its message is sent again.
    """
    try:
        id = UUID(job_id)
    except ValueError:
        # A message of another version or another program: to raise would only have it sent again.
        log.error("message_not_understood")
        return
    job = Job.objects.only("kind", "goes_last").filter(pk=id).first()
    if job is None:
        return
    # The row waits for a worker of that version.
    if not is_registered(job.kind):
        log.warning("job_of_another_version", kind=job.kind)
        return
    first = find_first(job) if job.goes_last else id
    if first != id:
        sender.send_job(id, job.kind)
    get_kind(job.kind).run(first, owner=owner_name())


@shared_task(ignore_result=True)
def resend() -> None:
    """Send again what is due and was not taken."""
    resend_due_jobs()
