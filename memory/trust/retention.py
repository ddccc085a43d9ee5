"""How long answers are kept that no run was recorded with (ERL_ANSWER_RETENTION_DAYS)."""

from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from memory.effects.models import HeuristicFeedback, UsageVerdict
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory

log = structlog.get_logger(__name__)

BATCH = 500
_FIRST = UUID(int=0)


def delete_old_answers(*, batch_size: int = BATCH) -> int:
    """Delete answers past their time, and return how many.

    An answer stays that a run, a feedback or a verdict refers to: it is the evidence of what lessons did, and its
    words go with the run. Each batch is a transaction of its own, in the order of the keys, so that no lock is held
    for long and a stop in the middle loses nothing.
    """
    days = settings.ERL_ANSWER_RETENTION_DAYS
    if not days:
        return 0
    old = Retrieval.objects.filter(created_at__lt=Now() - timedelta(days=days)).order_by("pk")
    deleted, last = 0, _FIRST
    while ids := list(old.filter(pk__gt=last).values_list("pk", flat=True)[:batch_size]):
        with transaction.atomic():
            unused = Retrieval.objects.select_for_update(skip_locked=True, of=("self",)).filter(pk__in=ids)
            for evidence in (Trajectory, HeuristicFeedback, UsageVerdict):
                unused = unused.exclude(Exists(evidence._default_manager.filter(retrieval=OuterRef("pk"))))
            count, _ = Retrieval.objects.filter(pk__in=list(unused.values_list("pk", flat=True))).delete()
        deleted, last = deleted + count, ids[-1]
    if deleted:
        log.info("old_answers_deleted", count=deleted)
    return deleted
