"""Forget answers that are no longer replayed."""

import structlog
from django.db import transaction
from django.db.models.functions import Now

from memory.api.models import IdempotencyRecord

log = structlog.get_logger(__name__)


def delete_expired_idempotency_records(*, batch_size: int = 1000) -> int:
    """Delete records past their time, a batch a statement, and return how many went.

    Each batch is its own transaction, so that no lock is held for long and a stop in the middle loses nothing. Rows
    that a request is replacing are passed over.
    """
    deleted, count = 0, batch_size
    while count == batch_size:
        with transaction.atomic():
            expired = IdempotencyRecord.objects.select_for_update(skip_locked=True).filter(expires_at__lte=Now())
            ids = expired.order_by("expires_at").values_list("pk", flat=True)[:batch_size]
            count, _ = IdempotencyRecord.objects.filter(pk__in=list(ids)).delete()
        deleted += count
    if deleted:
        log.info("idempotency_records_expired", count=deleted)
    return deleted
