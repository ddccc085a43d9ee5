"""Celery tasks of the app memory."""

import structlog
from celery import shared_task
from django.db import Error

from memory.index.vector_index import keep_index
from memory.passages.models import PassageEmbedding
from memory.retrieval.models import HeuristicEmbedding

log = structlog.get_logger(__name__)

BUILD_SECONDS = 4 * 3600  # an index of a million texts takes half an hour


@shared_task(ignore_result=True, acks_late=False, soft_time_limit=BUILD_SECONDS, time_limit=BUILD_SECONDS + 60)
def tune_retrieval() -> None:
    """Build the indexes of vectors once a project is large, and drop them once none is. Failures are retried hourly."""
    for table, searched in ((HeuristicEmbedding, {"served": True}), (PassageEmbedding, {})):
        try:
            keep_index(table, **searched)
        except Error as error:
            log.warning("search_not_tuned", table=table._meta.db_table, reason=type(error).__name__)
