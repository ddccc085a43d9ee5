"""Erase a run and everything learnt only from it (reliability C10)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import OperationalError, connection, transaction
from django.db.models import Q
from django.utils import timezone
from psycopg.errors import DeadlockDetected

from memory.api.models import IdempotencyRecord
from memory.curation.decision_steps import set_status
from memory.curation.proposals import count_support, repropose_heuristic
from memory.effects.usefulness import find_lessons_of_run, refresh_usefulness
from memory.failpoints import failpoint
from memory.heuristics.extensions import forget_elsewhere
from memory.heuristics.models import Heuristic, HeuristicRevision, Review
from memory.mistakes.erasure import forget_mistakes
from memory.projects.actors import Actor, name_actor
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.trust.models import Erasure

log = structlog.get_logger(__name__)

ATTEMPTS = 5
ASKED_BEFORE = timedelta(days=1)  # an agent asks for lessons before its run is recorded


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """How many heuristics were deleted with the run, how many only lost evidence, and how many of those went back to
    review because their wording quoted the run's task."""

    heuristics_deleted: int
    heuristics_kept: int
    heuristics_reworded: int = 0


def erase_trajectory(trajectory: Trajectory, *, by: Actor) -> Erased:
    """Delete a run, its reflections and evidence, heuristics based only on it, and stored answers about it.

    Heuristics with other evidence stay: their support is counted again, and what the run showed about the use of
    lessons no longer counts. Wordings that quote the run's task are deleted, and the rest of such a heuristic goes back
    to review. Questions asked with the run's task lose it. A replay of the request that recorded the run gets 410. The
    erasure itself is recorded, so that it can be repeated on a restored backup.

    A process that writes to one of the lessons can deadlock with the erasure; then the database ends one of the two,
    and the erasure is tried again.
    """
    pk = trajectory.pk
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with transaction.atomic():
                erased = _erase(trajectory, by=by)
                failpoint("erasure.before_commit")
        except OperationalError as error:
            if not isinstance(error.__cause__, DeadlockDetected) or attempt == ATTEMPTS:
                raise
            trajectory.pk = pk
            log.info("erasure_repeated", trajectory_id=str(pk), attempt=attempt)
        else:
            failpoint("erasure.after_commit")
            return erased
    raise AssertionError("The last attempt returns or raises.")


def _erase(trajectory: Trajectory, *, by: Actor) -> Erased:
    name_actor(by)
    _set_erasing("on")
    # Waits for reflections that are writing lessons from this run, and blocks later ones.
    list(Trajectory.objects.select_for_update().filter(pk=trajectory.pk).values_list("pk"))
    learnt = set(trajectory.evidence.values_list("heuristic_id", flat=True))
    judged = find_lessons_of_run(trajectory)
    # Locked together and in order, so that two erasures cannot deadlock.
    locked = Heuristic.objects.select_for_update().filter(pk__in=[*learnt, *judged], project_id=trajectory.project_id)
    touched = [heuristic for heuristic in locked.order_by("pk") if heuristic.pk in learnt]
    failpoint("erasure.before_delete")
    forget_elsewhere(trajectory)
    trajectory.evidence.all().delete()
    orphans = [heuristic for heuristic in touched if not heuristic.evidence.exists()]
    kept = [heuristic for heuristic in touched if heuristic not in orphans]
    _forget_answers(trajectory, touched=touched)
    _delete(orphans)
    reworded = [heuristic for heuristic in kept if _reword(heuristic, trajectory, by=by)]
    for heuristic in kept:
        count_support(heuristic)
    Erasure.objects.create(
        project_id=trajectory.project_id,
        trajectory_id=trajectory.pk,
        # Reviews of deleted wordings are gone too; the audit needs to know why.
        heuristic_ids=[heuristic.pk for heuristic in (*orphans, *reworded)],
        erased_by=by.label,
    )
    log.info("trajectory_erased", trajectory_id=str(trajectory.pk), heuristics=len(orphans), kept=len(kept))
    forget_mistakes(trajectory)
    trajectory.delete()
    refresh_usefulness(judged)
    _set_erasing("off")
    return Erased(heuristics_deleted=len(orphans), heuristics_kept=len(kept), heuristics_reworded=len(reworded))


def _forget_answers(trajectory: Trajectory, *, touched: list[Heuristic]) -> None:
    """Clear stored answers about the run and its lessons, and the task of questions about it."""
    since = trajectory.created_at - ASKED_BEFORE
    asked = Q(task=trajectory.task, created_at__gte=since, created_at__lte=trajectory.created_at + ASKED_BEFORE)
    questions = Retrieval.objects.filter(Q(pk=trajectory.retrieval_id) | asked, project_id=trajectory.project_id)
    ids = [heuristic.pk for heuristic in touched]
    stored = IdempotencyRecord.objects.filter(project=trajectory.project_id, resource_id__isnull=False)
    carried = Retrieval.objects.filter(
        Q(heuristic_ids__overlap=ids) | Q(injected_ids__overlap=ids),
        project_id=trajectory.project_id,
        pk__in=stored.values("resource_id"),
    )
    answers = [*questions.values_list("pk", flat=True), *(carried.values_list("pk", flat=True) if touched else ())]
    _empty([trajectory.pk, *ids, *answers])
    questions.update(task="")


def _empty(resource_ids: Iterable[UUID]) -> None:
    IdempotencyRecord.objects.filter(resource_id__in=list(resource_ids)).update(
        body=b"", request=b"", headers={}, erased_at=timezone.now()
    )


def _delete(orphans: list[Heuristic]) -> None:
    ids = [heuristic.pk for heuristic in orphans]
    Review.objects.filter(heuristic__in=ids).delete()
    Heuristic.objects.filter(pk__in=ids).update(current_revision=None)
    HeuristicRevision.objects.filter(heuristic__in=ids).delete()
    Heuristic.objects.filter(pk__in=ids).delete()


def _reword(heuristic: Heuristic, trajectory: Trajectory, *, by: Actor) -> bool:
    """Delete wordings that quote the run's task, unless other evidence has the same task; return whether any did."""
    if heuristic.evidence.filter(trajectory__task=trajectory.task).exists():
        return False
    quoting = [
        revision.pk
        for revision in heuristic.revisions.all()
        if revision.source_task and revision.source_task[:200] in trajectory.task
    ]
    if not quoting:
        return False
    current, status = heuristic.current_revision, heuristic.status
    if current is not None and current.pk in quoting:
        clean = repropose_heuristic(heuristic, text=replace(current.as_text(), source_task=""), by=by)
        if status not in (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED):
            set_status(clean, status)
    Review.objects.filter(revision__in=quoting).delete()
    HeuristicRevision.objects.filter(pk__in=quoting).delete()
    heuristic.refresh_from_db()
    return True


def _set_erasing(value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('erl.erasing', %s, true)", [value])
