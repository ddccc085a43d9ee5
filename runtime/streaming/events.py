"""The events of a run: written in the transaction of what happened, and announced to those who follow the run."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models.functions import Now

from runtime.models.runs import Event

CHANNEL = "agents_event"
PARTS_KEPT = timedelta(hours=1)
PARTS_AT_ONCE = 10_000

# One statement: the number comes from the run's own row, whose lock lasts until the commit. So events become visible in
# the order of their numbers, and the notification is sent with the commit.
_APPEND = f"""
WITH numbered AS (
    UPDATE agents_run SET events_written = events_written + 1 WHERE id = %s RETURNING events_written, project_id
), written AS (
    INSERT INTO agents_event (project_id, run_id, seq, kind, payload, created_at)
    SELECT project_id, %s, events_written, %s, %s, statement_timestamp() FROM numbered
    RETURNING seq
)
SELECT seq, pg_notify('{CHANNEL}', %s) FROM written
"""  # noqa: S608 - constants of this module


def append_event(run_id: UUID, kind: str, /, **payload: Any) -> int:
    """Write one event and return its number. Call it with the run's row locked, or as a transaction of its own."""
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, [run_id, run_id, kind, orjson.dumps(payload, default=str).decode(), str(run_id)])
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def prune_parts() -> int:
    """Delete the parts of answers in runs that ended an hour ago; the messages stay. Return how many."""
    old = Event.objects.filter(kind="text", run__finished_at__lt=Now() - PARTS_KEPT).order_by()
    return Event.objects.filter(pk__in=old.values("pk")[:PARTS_AT_ONCE]).delete()[0]
