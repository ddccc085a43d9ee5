"""The partitions of events: one a month, made ahead and dropped as a whole (runtime/sql/event_months.sql)."""

import structlog
from django.conf import settings

from memory.database_owner import as_owner
from memory.months import change_partitions, make_months

log = structlog.get_logger(__name__)


def keep_event_months() -> None:
    """Make the partitions of the next months and drop those past ERL_RETENTION_DAYS.

    Writers wait for at most a second. What cannot be done in this time, or may not be done by this role, is left to the
    next call: until then events go to the default partition.
    """
    with as_owner():
        if days := settings.ERL_RETENTION_DAYS:
            for dropped in change_partitions("SELECT agents_drop_event_months(%s)", [days]) or ():
                log.info("event_month_dropped", partition=dropped)
        make_months("agents_event")
