"""Tables with a partition for each month (memory/sql/months.sql)."""

from collections.abc import Sequence
from typing import Any

import structlog
from django.db import DatabaseError, connection, transaction

log = structlog.get_logger(__name__)

MONTHS_AHEAD = 2


def make_months(table: str) -> None:
    """Make the partitions of this month and the next two.

    A default partition with rows is read as a whole when a month is made, so this takes a second at most.
    """
    change_partitions("SELECT memory_make_months(%s, %s)", [table, MONTHS_AHEAD], timeout="1s")


def change_partitions(statement: str, parameters: Sequence[Any] = (), *, timeout: str = "0") -> list[str] | None:
    """Run a statement that makes or drops partitions, and return the first column of its rows.

    None, and a line in the log, if the table is in use for longer than it waits, or if this role may not do it.
    """
    try:
        # The limits end with this transaction, so that a pooled connection keeps none of them.
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', '200ms', true)", [timeout]
            )
            cursor.execute(statement, parameters)
            return [str(first) for first, *_ in cursor.fetchall()] if cursor.description else []
    except DatabaseError as error:
        log.warning("months_not_kept", error=type(error).__name__, statement=statement)
        return None
