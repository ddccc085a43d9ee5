"""The one clock that all processes share."""

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """Return what time it is by the database's clock, by which runs and lessons are dated."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
