"""The Celery task: a message names a row, the row is the work."""

from uuid import UUID

import structlog
from celery import shared_task

from evaluation.requests import TIME_LIMIT_SECONDS, run_requested

log = structlog.get_logger(__name__)
GRACE_SECONDS = 30  # between being asked to stop and being killed


@shared_task(
    ignore_result=True,
    soft_time_limit=TIME_LIMIT_SECONDS,
    time_limit=TIME_LIMIT_SECONDS + GRACE_SECONDS,
)
def evaluate(run_id: str) -> None:
    """Run one evaluation that was asked for through the API."""
    try:
        id = UUID(run_id)
    except ValueError:
        log.error("message_not_understood")
        return
    run_requested(id)
