"""Small pieces of periodic work of the memory."""

from uuid import UUID

import structlog
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import Count
from django.db.models.functions import Now

from memory.curation.priority import prioritise_queue
from memory.errors import EmbedderError
from memory.index.calibration import calibrate, find_uncalibrated_model
from memory.index.heuristic_vectors import count_terms, embed_heuristics, find_heuristics_without_vectors
from memory.retrieval.models import ServedChange, TermChange

log = structlog.get_logger(__name__)

AT_ONCE = 2000  # wordings; each takes 0.2 ms and is written again
FOLD_FROM = 50  # rows of one project; reading them takes 0.1 ms

_NAME = """
UPDATE memory_heuristicrevision SET names = ''
WHERE id IN (SELECT id FROM memory_heuristicrevision WHERE names IS NULL ORDER BY id DESC LIMIT %s
             FOR UPDATE SKIP LOCKED)
"""


def embed_new_heuristics() -> None:
    """Make missing vectors, some at a time, and calibrate a new model."""
    if without_vectors := find_heuristics_without_vectors():
        embed_heuristics(without_vectors)
    if model := find_uncalibrated_model():
        try:
            calibrate(model)
        except EmbedderError as error:
            log.warning("model_not_calibrated", reason=str(error))


def order_queue() -> int:
    """Order the review queue by the vectors of what was proposed, which are made first where they are missing."""
    embed_new_heuristics()
    return prioritise_queue()


def count_new_terms() -> None:
    """Count the words of lessons that came into service or left it since the last time."""
    for project_id in TermChange.objects.values_list("project_id", flat=True).distinct():
        count_terms(project_id)


def name_lessons() -> int:
    """Let the database find the names of the newest wordings that have none yet; return how many there were.

    A trigger makes them from the wording, whatever is written to the column.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NAME, [AT_ONCE])
        return int(cursor.rowcount)


def fold_changes() -> list[UUID]:
    """Merge the rows of each project into one, and return the projects; the names of their states do not change."""
    counted = ServedChange.objects.values("project_id").annotate(rows=Count("pk")).filter(rows__gte=FOLD_FROM)
    project_ids = list(counted.values_list("project_id", flat=True))
    with connection.cursor() as cursor:
        for project_id in project_ids:
            cursor.execute("SELECT memory_fold_changes(%s)", [project_id])
    return project_ids


def delete_ended_sessions() -> None:
    """Delete the sessions that have ended, which Django itself never does."""
    Session.objects.filter(expire_date__lt=Now()).delete()
