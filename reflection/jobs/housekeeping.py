"""What has to happen from time to time so that nothing is forgotten (reliability B7, B12)."""

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import structlog
from django.contrib.sessions.models import Session
from django.db.models import Exists
from django.db.models.functions import Now

from memory.api.idempotency_expiry import delete_expired_idempotency_records
from memory.curation.priority import prioritise_queue
from memory.failpoints import failpoint
from memory.index.heuristic_vectors import count_terms, embed_heuristics, find_heuristics_without_vectors
from memory.index.upkeep import fold_changes, name_lessons
from memory.mistakes.retention import keep_cards
from memory.retrieval.models import TermChange
from reflection.jobs.doorbell import Doorbell, doorbell
from reflection.llm.budget import resume_projects
from reflection.models import Reflection, WorkerHeartbeat

log = structlog.get_logger(__name__)

NUDGES_AT_ONCE = 100
OVERDUE_SECONDS = 1.0
NUDGE_EXPIRES_SECONDS = 30.0
HEARTBEAT_KEPT = timedelta(days=1)


class Overdue(NamedTuple):
    """A reflection that waits, and how often it was tried: another attempt is another reason to ring."""

    id: UUID
    attempts: int


def find_overdue_reflections(*, limit: int = NUDGES_AT_ONCE) -> list[Overdue]:
    """Return what was due a second ago and nobody has taken, oldest first."""
    abandoned = Reflection.objects.abandoned().order_by("lease_until")
    since = Now() - timedelta(seconds=OVERDUE_SECONDS)
    waiting = Reflection.objects.waiting().filter(available_at__lte=since).order_by("available_at")
    rows = [*abandoned.values_list("pk", "attempts")[:limit], *waiting.values_list("pk", "attempts")[:limit]]
    return [Overdue(*row) for row in rows]


def nudge(overdue: Iterable[Overdue], *, bell: Doorbell = doorbell) -> list[Overdue]:
    """Ring for reflections until the broker does not take a message; return those it took.

    These messages expire: if the workers are busy for longer, the next sweep rings again.
    """
    rung: list[Overdue] = []
    for each in overdue:
        if not bell.ring(each.id, expires_seconds=NUDGE_EXPIRES_SECONDS):
            break
        rung.append(each)
    if rung:
        log.info("reflections_nudged", count=len(rung))
    return rung


def keep_house() -> None:
    """Do what can wait a minute."""
    resume_projects()
    delete_expired_idempotency_records()
    failpoint("sweep.housekeeping")
    if without_vectors := find_heuristics_without_vectors():
        embed_heuristics(without_vectors)
    name_lessons()
    keep_cards()
    prioritise_queue()
    for project_id in TermChange.objects.values_list("project_id", flat=True).distinct():
        count_terms(project_id)
    fold_changes()
    WorkerHeartbeat.objects.filter(seen_at__lt=Now() - HEARTBEAT_KEPT).delete()
    Session.objects.filter(expire_date__lt=Now()).delete()  # Django itself never does


def record_heartbeat(worker: str) -> None:
    """Note that a worker lives."""
    WorkerHeartbeat.objects.bulk_create(
        [WorkerHeartbeat(name=worker, seen_at=Now())],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["seen_at"],
    )


def record_claim(worker: str) -> None:
    """Note that a message reached a worker and it tries to claim a reflection."""
    WorkerHeartbeat.objects.bulk_create(
        [WorkerHeartbeat(name=worker, seen_at=Now(), last_claim_at=Now())],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["seen_at", "last_claim_at"],
    )


def elect_sweeper(worker: str, *, unless_swept_within_seconds: float) -> bool:
    """Return whether a worker is the one to sweep now: no other did lately.

    One statement without a lock to hold, so that nothing of a dead worker stands in the way, whatever pooler is
    between. Two at once is possible for a moment, and harmless: a spare message finds nothing to claim.
    """
    lately = Now() - timedelta(seconds=unless_swept_within_seconds)
    others = WorkerHeartbeat.objects.filter(last_sweep_at__gt=lately).exclude(name=worker)
    mine = WorkerHeartbeat.objects.filter(~Exists(others), name=worker)
    return bool(mine.update(seen_at=Now(), last_sweep_at=Now()))
