"""The Celery tasks: a message names a row, the row is the work."""

from uuid import UUID

import structlog
from celery import shared_task

from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.queue import (
    request_due_consolidations,
    request_nightly_consolidations,
    ring_for_due_consolidations,
)
from reflection.jobs.housekeeping import find_overdue_reflections, keep_house, nudge, record_claim
from reflection.jobs.worker_identity import owner_name, worker_name
from reflection.reflectors.reflections import run_reflection

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def reflect(reflection_id: str) -> None:
    """Run one reflection. Where somebody else has it, or nothing is left to do, the message was a spare one."""
    try:
        id = UUID(reflection_id)
    except ValueError:
        log.error("message_not_understood")
        return
    record_claim(worker_name())
    run_reflection(id, owner=owner_name())


@shared_task(ignore_result=True)
def sweep() -> None:
    """Ring for what is due and tidy up: what the thread in every worker does too, for those who run a scheduler."""
    nudge(find_overdue_reflections())
    keep_house()
    request_due_consolidations()
    request_nightly_consolidations()
    ring_for_due_consolidations()


@shared_task(ignore_result=True)
def consolidate(run_id: str) -> None:
    """Run one consolidation. Where somebody else has it, or nothing is left to do, the message was a spare one."""
    try:
        id = UUID(run_id)
    except ValueError:
        log.error("message_not_understood")
        return
    run_consolidation(id, owner=owner_name())


@shared_task(ignore_result=True)
def consolidate_nightly() -> None:
    """Queue the consolidations of the night; the sweeps of that hour do the same where no scheduler runs."""
    request_nightly_consolidations()
