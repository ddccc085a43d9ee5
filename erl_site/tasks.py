"""What has to be done from time to time, in all apps. CELERY_BEAT_SCHEDULE says when.

Each piece looks for what there is to do, and does no harm if it is called twice or by two workers at once.
"""

from collections.abc import Callable

import structlog
from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.db import close_old_connections

from erl_site.sign_in.second_factor import seal_authenticator_apps
from evaluation.experiments.looks import look_at_experiments
from evaluation.experiments.of_changes import take_back_worse
from evaluation.shadow.jobs import queue_shadow_jobs
from memory.api.idempotency import delete_expired_idempotency_records
from memory.effects.harm import measure_lessons
from memory.failpoints import failpoint
from memory.housekeeping import (
    count_new_terms,
    delete_ended_sessions,
    embed_new_heuristics,
    fold_changes,
    name_lessons,
    order_queue,
)
from memory.intake.open_runs import close_unfinished_runs
from memory.mistakes.policy import keep_cards
from memory.passages.vectors import embed_new_passages
from memory.releases.policy import cut_every_night
from memory.trust.periods import erase_all_due
from memory.trust.retention import delete_old_answers, keep_answer_months
from reflection.consolidation.requests import request_due_consolidations, request_nightly_consolidations
from reflection.jobs.workers import forget_old_workers
from reflection.llm.budget import resume_projects
from reflection.webhooks.delivery import delete_old_deliveries
from reflection.webhooks.sealing import seal_webhooks
from runtime.approvals import expire_approvals
from runtime.changes.policy import climb
from runtime.changes.sleep import send_to_sleep

log = structlog.get_logger(__name__)

OFTEN: tuple[Callable[[], object], ...] = (
    resume_projects,
    embed_new_heuristics,
    embed_new_passages,
    name_lessons,
    order_queue,
    count_new_terms,
    fold_changes,
    request_due_consolidations,
    expire_approvals,
    look_at_experiments,
)
EVERY_MINUTE: tuple[Callable[[], object], ...] = (
    delete_expired_idempotency_records,
    keep_cards,
    close_unfinished_runs,
    request_nightly_consolidations,
    forget_old_workers,
    send_to_sleep,
    climb,
    take_back_worse,
    queue_shadow_jobs,
)
EVERY_HOUR: tuple[Callable[[], object], ...] = (
    keep_answer_months,
    delete_old_answers,
    erase_all_due,
    delete_old_deliveries,
    delete_ended_sessions,
    measure_lessons,
    cut_every_night,
    seal_webhooks,
    seal_authenticator_apps,
)


@shared_task
def often() -> None:
    """Do what people and agents wait for."""
    run_each(OFTEN)


@shared_task
def every_minute() -> None:
    """Do what may wait for a minute."""
    run_each(EVERY_MINUTE)


@shared_task
def every_hour() -> None:
    """Do what may wait for an hour."""
    run_each(EVERY_HOUR)


def run_each(work: tuple[Callable[[], object], ...]) -> None:
    """Call functions one after the other, whether those before failed or not.

    Raises:
        ExceptionGroup: some failed; they are called again the next time.
    """
    errors = []
    for function in work:
        failpoint("periodic.work")
        try:
            function()
        except SoftTimeLimitExceeded:
            # Celery stops the task; what is left has its turn the next time.
            raise
        except Exception as error:
            errors.append(error)
            close_old_connections()  # where the database ended one
    if errors:
        raise ExceptionGroup("Periodic work failed.", errors)
