"""Erase a run and everything that was learnt from it alone."""

from dataclasses import dataclass

from django.db import connection, transaction
from django.utils import timezone

from memory.models import Heuristic, HeuristicRevision, IdempotencyRecord, Review, Trajectory
from memory.services.propose_heuristic import count_support
from memory.values import Actor


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """What went: how many heuristics were deleted with the run, and how many lost a part of their evidence."""

    heuristics_deleted: int
    heuristics_kept: int


@transaction.atomic
def erase_trajectory(trajectory: Trajectory, *, by: Actor) -> Erased:
    """Delete a run, its reflections, its evidence, the heuristics that rest on it alone, and stored answers about it.

    Heuristics with other evidence stay, with their support recounted. A replay of the request that recorded the run
    is answered with 410 from then on.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL erl.erasing = 'on'")
    # Waits for a reflection that is writing lessons of this run, and keeps a later one from it: none may stay behind.
    list(Trajectory.objects.select_for_update().filter(pk=trajectory.pk).values_list("pk"))
    touched = list(
        Heuristic.objects.select_for_update().filter(
            pk__in=trajectory.evidence.values("heuristic_id"), project_id=trajectory.project_id
        )
    )
    IdempotencyRecord.objects.filter(resource_id=trajectory.pk).update(
        body=b"", request=b"", headers={}, erased_at=timezone.now()
    )
    trajectory.evidence.all().delete()
    orphaned = [heuristic for heuristic in touched if not heuristic.evidence.exists()]
    orphan_ids = [heuristic.pk for heuristic in orphaned]
    IdempotencyRecord.objects.filter(resource_id__in=orphan_ids).update(
        body=b"", request=b"", headers={}, erased_at=timezone.now()
    )
    Review.objects.filter(heuristic__in=orphan_ids).delete()
    Heuristic.objects.filter(pk__in=orphan_ids).update(current_revision=None)
    HeuristicRevision.objects.filter(heuristic__in=orphan_ids).delete()
    Heuristic.objects.filter(pk__in=orphan_ids).delete()
    for heuristic in touched:
        if heuristic.pk not in orphan_ids:
            count_support(heuristic)
    trajectory.delete()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL erl.erasing = 'off'")
    return Erased(heuristics_deleted=len(orphan_ids), heuristics_kept=len(touched) - len(orphan_ids))
