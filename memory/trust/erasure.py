"""Erase a run and everything learnt only from it (reliability C10).

A lesson goes with the run if the run was its only evidence and its words were written from the run, or from one that
was erased before. A run that only showed a lesson again is taken out of its evidence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import structlog
from django.db import OperationalError, connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Left, Length
from psycopg.errors import DeadlockDetected

from memory.api.idempotency import forget_stored_answers
from memory.blocks.withdrawal import erase_run as erase_run_in_blocks
from memory.curation.decision_steps import set_status
from memory.curation.proposal_groups import count_support, leave_group
from memory.curation.proposals import repropose_heuristic
from memory.effects.uses import find_lessons_of_run, refresh_uses
from memory.failpoints import failpoint
from memory.heuristics.extensions import forget_elsewhere
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.provenance import WordOrigin
from memory.mistakes.erasure import forget_mistakes
from memory.passages.storage import erase_run as erase_run_in_passages
from memory.projects.actors import Actor, name_actor
from memory.runs.models import Trajectory
from memory.trust.erased_answers import forget_answers, forget_cards
from memory.trust.models import Erasure

log = structlog.get_logger(__name__)

ATTEMPTS = 5
SHORTENED_FROM = 200  # characters: what lessons keep of a task is at least as long, or the whole task


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """How many heuristics were deleted with the run, how many only lost evidence, and how many of those went back to
    review because their wording quoted the run's task."""

    heuristics_deleted: int
    heuristics_kept: int
    heuristics_reworded: int = 0


def erase_trajectory(trajectory: Trajectory, *, by: Actor) -> Erased:
    """Delete a run, its reflections and evidence, heuristics based only on it, and stored answers about it.

    Heuristics with other evidence, or with words from elsewhere, stay: their support is counted again, and what the run
    showed about the use of lessons no longer counts. Wordings that quote the run's task are deleted, and the rest of
    such a heuristic goes back to review. Passages that the run wrote are deleted, and its lines are taken out of
    blocks. Questions asked with the run's task lose it. A replay of the request that recorded the run gets 410. The
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
            # `delete()` takes the id from the instance, also where the transaction is rolled back.
            trajectory.pk = pk
            log.info("erasure_repeated", trajectory_id=str(pk), attempt=attempt)
        else:
            failpoint("erasure.after_commit")
            return erased
    raise AssertionError("The last attempt returns or raises.")


def _erase(trajectory: Trajectory, *, by: Actor) -> Erased:
    name_actor(by)
    set_erasing("on")
    # Waits for reflections that are writing lessons from this run, and blocks later ones.
    list(Trajectory.objects.select_for_update().filter(pk=trajectory.pk).values_list("pk"))
    evidence = trajectory.evidence.filter(heuristic__kind=Heuristic.Kind.LESSON)
    learnt = set(evidence.values_list("heuristic_id", flat=True))
    quoting = set(_find_quotations(trajectory).values_list("heuristic_id", flat=True))
    # Read now: the verdicts go with the run, and their lessons are counted again at the end.
    judged = find_lessons_of_run(trajectory)
    # Locked together and in order, so that two erasures cannot deadlock.
    concerned = Heuristic.objects.filter(pk__in=learnt | quoting | set(judged), project_id=trajectory.project_id)
    locked = concerned.select_for_update().order_by("pk")
    touched = [heuristic for heuristic in locked if heuristic.pk in learnt | quoting]
    failpoint("erasure.before_delete")
    forget_elsewhere(trajectory)
    evidence.delete()
    unproven = [lesson for lesson in touched if lesson.pk in learnt and not lesson.evidence.exists()]
    written_from_it = _find_written_from(trajectory, lessons=unproven)
    orphans = [lesson for lesson in unproven if lesson.pk in written_from_it]
    kept = [heuristic for heuristic in touched if heuristic not in orphans]
    forget_answers(trajectory, lessons=[heuristic.pk for heuristic in touched])
    for orphan in orphans:
        leave_group(orphan)
    delete_lessons(orphans)
    reworded = [heuristic for heuristic in kept if _reword(heuristic, trajectory, by=by)]
    forget_log_entries([trajectory.pk, *(heuristic.pk for heuristic in (*orphans, *reworded))])
    for heuristic in kept:
        count_support(heuristic)
    cards = forget_mistakes(trajectory)
    Erasure.objects.create(
        project_id=trajectory.project_id,
        trajectory_id=trajectory.pk,
        # Reviews of deleted wordings are gone too; the audit needs to know why.
        heuristic_ids=[*(heuristic.pk for heuristic in (*orphans, *reworded)), *cards],
        erased_by=by.label,
    )
    log.info("trajectory_erased", trajectory_id=str(trajectory.pk), heuristics=len(orphans), kept=len(kept))
    forget_cards(trajectory, cards=cards)
    forget_stored_answers([*erase_run_in_blocks(trajectory, by=by), *erase_run_in_passages(trajectory)])
    trajectory.delete()
    refresh_uses(judged)
    set_erasing("off")
    return Erased(heuristics_deleted=len(orphans), heuristics_kept=len(kept), heuristics_reworded=len(reworded))


def _find_written_from(trajectory: Trajectory, *, lessons: list[Heuristic]) -> set[UUID]:
    """Return which of these lessons have words from the run, or from one that was erased before."""
    runs = Trajectory.objects.filter(pk=OuterRef("trajectory_id")).exclude(pk=trajectory.pk)
    origins = WordOrigin.objects.filter(project_id=trajectory.project_id, trajectory_id__isnull=False)
    revisions = HeuristicRevision.objects.filter(heuristic__in=lessons)
    ancestors = {id for lineage in revisions.values_list("lineage", flat=True) for id in lineage}
    gone = set(origins.filter(~Exists(runs), wording_id__in=ancestors).values_list("wording_id", flat=True))
    written = revisions.filter(lineage__overlap=list(gone))
    return set(written.values_list("heuristic_id", flat=True))


def _find_quotations(trajectory: Trajectory) -> QuerySet[HeuristicRevision]:
    """Return the wordings of the project that name the run's task as the one they were learnt from.

    A lesson that a client proposed names a task without being based on a run. Reflectors keep the beginning of a long
    task.
    """
    kept = Length("source_task")
    same = Q(source_task=trajectory.task) | Q(
        kept__gte=SHORTENED_FROM, source_task=Left(Value(trajectory.task, TextField()), kept)
    )
    return HeuristicRevision.objects.filter(project_id=trajectory.project_id).annotate(kept=kept).filter(same)


def forget_log_entries(ids: Iterable[UUID]) -> None:
    """Leave of the admin's entries about these rows who did what, without how the rows were called."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_forget_log_entries(%s)", [[str(id) for id in ids]])


def delete_lessons(lessons: Sequence[Heuristic]) -> None:
    """Delete lessons with all their wordings, where `set_erasing` allows it."""
    ids = [heuristic.pk for heuristic in lessons]
    # The two tables refer to each other, so the reference goes before the rows.
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
        if revision.source_task and revision.source_task[:SHORTENED_FROM] in trajectory.task
    ]
    if not quoting:
        return False
    current, status = heuristic.current_revision, heuristic.status
    if current is not None and current.pk in quoting:
        clean = repropose_heuristic(heuristic, text=replace(current.as_text(), source_task=""), by=by)
        # A lesson that was out of use must not come back into the queue by an erasure.
        if status not in (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED):
            set_status(clean, status)
    HeuristicRevision.objects.filter(pk__in=quoting).delete()
    heuristic.refresh_from_db()
    return True


def set_erasing(value: str) -> None:
    """Let this transaction delete what is written once ("on"), or no longer ("off")."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('erl.erasing', %s, true)", [value])
