"""The one clock that all processes share."""

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """Return the time by the database's clock, which dates runs and lessons."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
