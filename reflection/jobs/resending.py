"""Send again what is due and no worker has taken: what the broker lost, and what waited for its time (B7)."""

from datetime import timedelta
from itertools import takewhile

import structlog
from django.conf import settings
from django.db.models.functions import Now

from reflection.jobs.kinds import all_kinds, get_kind
from reflection.jobs.messages import Sender, sender
from reflection.jobs.models import Job

log = structlog.get_logger(__name__)

AT_ONCE = 100
OVERDUE_SECONDS = 1.0


def find_overdue_jobs(*, limit: int = AT_ONCE) -> list[Job]:
    """Return what was due a second ago and no worker has taken, oldest first."""
    jobs = Job.objects.filter(kind__in=[kind.name for kind in all_kinds()]).only("kind")
    # A second's grace: a job that was queued just now has a message that is still on its way.
    since = Now() - timedelta(seconds=OVERDUE_SECONDS)
    waiting = jobs.waiting().filter(available_at__lte=since).order_by("available_at")
    return [*jobs.abandoned().order_by("lease_until")[:limit], *waiting[:limit]]


def resend_due_jobs(*, by: Sender = sender) -> int:
    """Send the messages of due jobs that the broker lacks, until it does not take one; return how many it took.

    Where as many messages wait in a queue as jobs, they wait because the workers are busy. More messages would keep
    them busy for longer, so only those that are missing are sent.
    """
    queues: dict[str, list[Job]] = {}
    for job in find_overdue_jobs():
        queues.setdefault(get_kind(job.kind).queue or settings.CELERY_TASK_DEFAULT_QUEUE, []).append(job)
    count = 0
    for queue, jobs in queues.items():
        waiting = by.count_waiting(queue)
        # The broker does not answer, so the other queues would have to wait for it, too.
        if waiting is None:
            break
        missing = jobs[: max(len(jobs) - waiting, 0)]
        # `takewhile` stops at the first message that is not taken: the broker is down then.
        count += sum(1 for _ in takewhile(lambda job: by.send_job(job.pk, job.kind), missing))
    if count:
        log.info("jobs_sent_again", count=count)
    return count
