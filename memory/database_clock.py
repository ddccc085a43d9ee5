"""The database's clock, which all processes share."""

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """Return the current time of the database, which dates runs and lessons."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
