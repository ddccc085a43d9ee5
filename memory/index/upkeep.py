"""Small upkeep of what searches read: names of old wordings, and the list of what changed in a project."""

from uuid import UUID

from django.db import connection
from django.db.models import Count

from memory.retrieval.models import ServedChange

AT_ONCE = 2000  # wordings; each takes 0.2 ms and is written again
FOLD_FROM = 50  # rows of one project; reading them takes 0.1 ms

_NAME = """
UPDATE memory_heuristicrevision SET names = ''
WHERE id IN (SELECT id FROM memory_heuristicrevision WHERE names IS NULL ORDER BY id DESC LIMIT %s
             FOR UPDATE SKIP LOCKED)
"""


def name_lessons(*, limit: int = AT_ONCE) -> int:
    """Let the database find the names of the newest `limit` wordings that have none yet; return how many there were.

    A trigger makes them from the wording, whatever is written to the column.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NAME, [limit])
        return int(cursor.rowcount)


def fold_changes() -> list[UUID]:
    """Make one row of many, project by project, and return the projects; the name of their state stays as it is."""
    counted = ServedChange.objects.values("project_id").annotate(rows=Count("pk")).filter(rows__gte=FOLD_FROM)
    project_ids = list(counted.values_list("project_id", flat=True))
    with connection.cursor() as cursor:
        for project_id in project_ids:
            cursor.execute("SELECT memory_fold_changes(%s)", [project_id])
    return project_ids
