"""The events of a run: written in the transaction of what happened, and announced to those who follow the run.

An event has ids and small facts, of that moment, and no copy of a text: see runtime/streaming/reading.py.
"""

from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from reflection.jobs.models import Job

CHANNEL = "agents_event"
# A notification has to be shorter than 8,000 bytes, and a character is up to 6 of them in JSON.
PART_CHARACTERS = 1_000

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

# Parts of an answer say after which event they come, so that a reader gets none that comes too late. A worker that
# lost its job, or whose run has ended, sends none.
_SEND = f"""
SELECT pg_notify('{CHANNEL}', concat_ws(' ', run.id, run.events_written, %s))
FROM agents_run run, reflection_job job
WHERE run.id = %s AND run.finished_at IS NULL AND job.id = %s AND job.attempts = %s AND job.status = 'running'
"""  # noqa: S608 - constants of this module


def append_event(run_id: UUID, kind: str, /, **facts: Any) -> int:
    """Write one event and return its number. Call it with the run's row locked, or as a transaction of its own."""
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, [run_id, run_id, kind, orjson.dumps(facts, default=str).decode(), str(run_id)])
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def send_text(run_id: UUID, job: Job, *, step: int, text: str) -> bool:
    """Tell those who follow a run what has come of an answer. It is stored nowhere: the whole message will be.

    Call it outside of transactions. Returns False where the run has ended or another worker holds its job.
    """
    with connection.cursor() as cursor:
        for start in range(0, len(text), PART_CHARACTERS):
            payload = {"step": step, "attempt": job.attempts, "text": text[start : start + PART_CHARACTERS]}
            cursor.execute(_SEND, [orjson.dumps(payload).decode(), run_id, job.pk, job.attempts])
            if not cursor.rowcount:
                return False
    return True
