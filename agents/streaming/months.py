"""The partitions of events: one a month, made ahead and dropped as a whole (agents/sql/event_months.sql)."""

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from memory.database_owner import as_owner

log = structlog.get_logger(__name__)

MONTHS_AHEAD = 2


def keep_event_months() -> None:
    """Make the partitions of the next months and drop those past ERL_EVENT_RETENTION_DAYS.

    Writers wait for at most a second. What cannot be done in this time, or may not be done by this role, is left to the
    next call: until then events go to the default partition.
    """
    with as_owner():
        if settings.ERL_EVENT_RETENTION_DAYS:
            for dropped in _call("SELECT agents_drop_event_months(%s)", settings.ERL_EVENT_RETENTION_DAYS):
                log.info("event_month_dropped", partition=dropped)
        # A default partition with events is read as a whole when a month is made.
        _call("SELECT agents_make_event_months(%s)", MONTHS_AHEAD, timeout="1s")


def _call(statement: str, number: int, *, timeout: str = "0") -> list[str]:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [timeout])
            cursor.execute(statement, [number])
            return [str(first) for (first,) in cursor.fetchall()]
    except DatabaseError as error:
        log.warning("event_months_not_kept", error=type(error).__name__)
        return []
