"""How long answers are kept that no run was recorded with (ERL_RETENTION_DAYS).

Answers lie in a partition for each month. Once a month is past its time, the answers that are evidence move to the
partition `memory_retrieval_kept`, and the month is dropped as a whole.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, models, transaction
from django.db.models import Exists, OuterRef

from memory.database_clock import database_now
from memory.database_owner import as_owner
from memory.months import change_partitions, make_months
from memory.retrieval.models import Retrieval

log = structlog.get_logger(__name__)

BATCH = 500
_FIRST = UUID(int=0)
_MONTHS = "memory_retrieval_months"

_LEAST = "SELECT id FROM {month} ORDER BY id LIMIT 1"
_PAST = "SELECT part::text FROM memory_months(%s) WHERE month < %s ORDER BY month"
# Months that left the table and are not dropped yet.
_DETACHED = """
SELECT oid::regclass::text FROM pg_class
WHERE relname ~ '^memory_retrieval_\\d{4}_\\d\\d$' AND relkind = 'r' AND NOT relispartition
"""
# The answers of a month that a table refers to, of those after an id: mark so many as kept, and return the last.
_KEEP = """
WITH referred AS (
    SELECT DISTINCT e.retrieval_id AS id FROM {evidence} e
    WHERE e.retrieval_id > %s AND e.retrieval_id <= (SELECT id FROM {month} ORDER BY id DESC LIMIT 1)
    ORDER BY 1 LIMIT %s
), marked AS (
    UPDATE {answers} SET is_kept = true WHERE NOT is_kept AND id IN (SELECT id FROM referred)
)
SELECT id FROM referred ORDER BY id DESC LIMIT 1
"""
_FORGET = "DELETE FROM {evidence} e WHERE EXISTS (SELECT FROM {month} m WHERE m.id = e.retrieval_id AND NOT m.is_kept)"
_PUT_BACK = "INSERT INTO memory_retrieval SELECT * FROM {month} WHERE is_kept"


def keep_answer_months() -> None:
    """Make the partitions of the next months; until they exist, answers go to the default partition."""
    with as_owner():
        make_months(_MONTHS)


def delete_old_answers(*, batch_size: int = BATCH) -> int:
    """Drop the months of answers that are past their time; return how many answers were deleted besides.

    An answer stays that a run, a feedback or a verdict refers to: it is the evidence of what lessons did, and its
    words go with the run. Answers move in batches, each a transaction of its own, and readers and writers wait only
    while a month leaves the table. A stop in the middle loses nothing, and the next call goes on. A month that is in
    use, or that this role may not drop, is left to the next call.

    Answers outside of the months, in the default partition or kept for a run that is gone, are deleted row by row.
    """
    days = settings.ERL_RETENTION_DAYS
    if not days:
        return 0
    # Whole months alone are dropped, so an answer may stay up to a month longer.
    until = (database_now() - timedelta(days=days)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    with as_owner():
        try:
            if not _drop_months(until, batch_size):
                return 0
        except DatabaseError as error:
            log.warning("months_not_kept", error=type(error).__name__)
            return 0
    return _delete_rows(until, batch_size)


def _drop_months(until: datetime, batch_size: int) -> bool:
    """Drop the months before a day; return whether none is left."""
    for month in _read(_PAST, [_MONTHS, until.date()]):
        _keep_evidence(month, "memory_retrieval", batch_size)
        if change_partitions(f"ALTER TABLE {_MONTHS} DETACH PARTITION {month}") is None:
            return False
    for month in _read(_DETACHED):
        _put_back(month, batch_size)
        if change_partitions(f"DROP TABLE {month}") is None:
            return False
        log.info("answer_month_dropped", partition=month)
    return True


def _keep_evidence(month: str, answers: str, batch_size: int) -> None:
    """Mark the answers of a month that something refers to as kept; in the whole table this moves them."""
    for model, is_evidence in _find_referring():
        statement = _KEEP.format(evidence=model._meta.db_table, month=month, answers=answers)
        # The statement takes what comes after an id, so the walk begins one before the first.
        after = [UUID(int=UUID(first).int - 1) for first in _read(_LEAST.format(month=month))]
        while after and is_evidence:
            after = [UUID(last) for last in _read(statement, [after[0], batch_size])]


def _put_back(month: str, batch_size: int) -> None:
    """Put the answers of a detached month back into the table that became evidence while it was about to leave."""
    with transaction.atomic(), connection.cursor() as cursor:
        _keep_evidence(month, month, batch_size)
        for model, is_evidence in _find_referring():
            if not is_evidence:
                cursor.execute(_FORGET.format(evidence=model._meta.db_table, month=month))
        cursor.execute(_PUT_BACK.format(month=month))


def _delete_rows(until: datetime, batch_size: int) -> int:
    old = Retrieval.objects.filter(created_at__lt=until).order_by("pk")
    deleted, last = 0, _FIRST
    # By id, so that answers that stay are not looked at again in this run.
    while ids := list(old.filter(pk__gt=last).values_list("pk", flat=True)[:batch_size]):
        with transaction.atomic():
            # An answer that a run is being recorded with at this moment is left to the next call.
            unused = Retrieval.objects.select_for_update(skip_locked=True, of=("self",)).filter(pk__in=ids)
            for model, is_evidence in _find_referring():
                if is_evidence:
                    unused = unused.exclude(Exists(model._default_manager.filter(retrieval=OuterRef("pk"))))
            count, _ = Retrieval.objects.filter(pk__in=list(unused.values_list("pk", flat=True))).delete()
        deleted, last = deleted + count, ids[-1]
    if deleted:
        log.info("old_answers_deleted", count=deleted)
    return deleted


def find_evidence() -> Iterator[type[models.Model]]:
    """Yield the models whose rows make an answer evidence."""
    return (model for model, is_evidence in _find_referring() if is_evidence)


def _find_referring() -> Iterator[tuple[type[models.Model], bool]]:
    """Yield the models that refer to answers, and whether their rows make an answer evidence or go with it."""
    for relation in Retrieval._meta.get_fields(include_hidden=True):
        if isinstance(relation, models.ManyToOneRel) and not isinstance(relation.related_model, str):
            yield relation.related_model, relation.on_delete is not models.CASCADE


def _read(statement: str, parameters: Sequence[Any] = ()) -> list[str]:
    """Run a statement and return the first column of its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [str(first) for (first,) in cursor.fetchall()]
