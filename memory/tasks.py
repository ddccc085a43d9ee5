"""Celery tasks of the app memory."""

import structlog
from celery import shared_task
from django.db import Error

from memory.errors import EmbedderError
from memory.index.tuning import find_projects_to_tune, measure_recall, tune_search
from memory.passages import index as passages

log = structlog.get_logger(__name__)

SAMPLED_TASKS = 20
BUILD_SECONDS = 4 * 3600  # an index of a million texts takes half an hour


@shared_task(ignore_result=True, acks_late=False, soft_time_limit=BUILD_SECONDS, time_limit=BUILD_SECONDS + 60)
def tune_retrieval() -> None:
    """Maintain the search indexes of large projects and measure them on recent tasks. Failures are retried hourly."""
    for project in find_projects_to_tune():
        try:
            index = tune_search(project)
            if index is not None:
                measure_recall(index, tasks=SAMPLED_TASKS)
        except (Error, EmbedderError) as error:
            log.warning("search_not_tuned", project=project.slug, reason=type(error).__name__)
    for project in passages.find_projects_to_tune():
        try:
            passages.tune_passages(project)
        except Error as error:
            log.warning("passages_not_tuned", project=project.slug, reason=type(error).__name__)
