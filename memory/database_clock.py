"""The one clock that all processes share: leases, sweeps, budgets, limits and the dates of runs use it."""

from datetime import date, datetime

from django.db import connection
from django.db.models import DateTimeField, Func


class NextUtcDay(Func):
    """The start of the next UTC day by the database's clock."""

    template = "((date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC')"
    output_field = DateTimeField()
    arity = 0


def database_now() -> datetime:
    """Return the time by the database's clock, which dates runs and lessons."""
    with connection.cursor() as cursor:
        # Not now(), which stands still while a transaction lasts.
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def database_today() -> date:
    """Return the UTC day by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date")
        day: date = cursor.fetchone()[0]
    return day
