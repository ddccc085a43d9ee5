"""Count what runs did with the lessons they were given: followed them or not, and how those runs ended.

This is a record for people, and the source of the tasks a lesson has helped with. It is not what a lesson is worth:
runs that follow a lesson differ from others, and their tasks do too (`memory.effects.comparison`). It is recounted from
rows every time, so it does not matter in which order verdicts and outcomes arrive. One run counts once, and of one
client only the newest runs count (reliability D4).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from memory.effects.helped_tasks import Help, note_help
from memory.effects.models import HeuristicFeedback, UsageVerdict
from memory.heuristics.models import Heuristic
from memory.runs.models import Trajectory

VERSION = "2"
RUNS_OF_A_CLIENT = 20

_COUNTED = ["usefulness_basis", "usefulness_version"]
_Verdict = UsageVerdict.Verdict
# A run that names its answer was given what the answer injected; of a run that names none, its word is taken.
_GIVEN = Q(trajectory__retrieval__isnull=True) | Q(trajectory__retrieval__injected_ids__contains=[F("heuristic_id")])


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One run that was given a lesson: what it did with it and how it ended."""

    heuristic_id: UUID
    trajectory_id: UUID
    at: datetime
    client: str
    verdict: str
    outcome: str


def count_uses(uses: Iterable[Use]) -> dict[str, int]:
    """Return what runs did with a lesson, independent of the order of its uses."""
    # By time and id, so that the newest of a client are the same whatever order the rows came in.
    ordered = sorted({use.trajectory_id: use for use in uses}.values(), key=lambda use: (use.at, use.trajectory_id))
    of_client: Counter[str] = Counter()
    tally: Counter[str] = Counter()
    for use in reversed(ordered):
        of_client[use.client] += 1
        if of_client[use.client] <= RUNS_OF_A_CLIENT:
            tally.update(["runs", use.verdict, f"{use.verdict}_{use.outcome}"])
    return {
        "runs": tally["runs"],
        "clients": len(of_client),
        "left_out": len(ordered) - tally["runs"],
        "followed": tally[_Verdict.FOLLOWED],
        "followed_success": tally["followed_success"],
        "followed_failure": tally["followed_failure"],
        "contradicted": tally[_Verdict.CONTRADICTED],
        "not_applicable": tally[_Verdict.NOT_APPLICABLE],
    }


@transaction.atomic
def refresh_uses(heuristic_ids: Iterable[UUID]) -> int:
    """Count the uses of these lessons again and keep the counts with them; return how many changed.

    Their rows are held while counting, so that of two who count at once the later one has seen everything.
    """
    # NO KEY: writing feedback takes a share lock on the row, and two such writers would otherwise deadlock here.
    rows = Heuristic.objects.select_for_update(no_key=True).filter(pk__in=list(heuristic_ids)).order_by("pk")
    heuristics = list(rows.only("project_id", *_COUNTED))
    uses = find_uses([heuristic.pk for heuristic in heuristics])
    changed, helped = [], {}
    for heuristic in heuristics:
        basis = count_uses(uses.get(heuristic.pk, ()))
        if (heuristic.usefulness_basis, heuristic.usefulness_version) != (basis, VERSION):
            # Only these can bring or take away a task that the lesson has helped with.
            if basis["followed_success"] or heuristic.usefulness_basis.get("followed_success"):
                helped[heuristic.pk] = _sum_up(uses.get(heuristic.pk, []))
            heuristic.usefulness_basis, heuristic.usefulness_version = basis, VERSION
            changed.append(heuristic)
    Heuristic.objects.bulk_update(changed, _COUNTED)
    if helped:
        note_help(helped)
    return len(changed)


def refresh_uses_of_run(trajectory: Trajectory) -> int:
    """Count again what a run says something about, after its outcome or its verdicts changed."""
    return refresh_uses(find_lessons_of_run(trajectory))


def find_lessons_of_run(trajectory: Trajectory) -> list[UUID]:
    """Return the lessons a run says something about."""
    about = Q(trajectory=trajectory)
    if trajectory.retrieval_id:
        about |= Q(retrieval=trajectory.retrieval_id)
    return sorted(set(UsageVerdict.objects.filter(about).values_list("heuristic_id", flat=True)))


def find_uses(heuristic_ids: Sequence[UUID]) -> dict[UUID, list[Use]]:
    """Return the runs that say something of these lessons, each once, in three queries.

    What the agent of a run says itself goes before what a judge read from it, and that before what others say.
    """
    best: dict[tuple[UUID, UUID], tuple[int, Use]] = {}

    def note(rank: int, use: Use) -> None:
        key = (use.heuristic_id, use.trajectory_id)
        if key not in best or rank < best[key][0]:
            best[key] = (rank, use)

    for verdict in _newest(UsageVerdict.objects.of_judges().exclude(verdict=_Verdict.UNCLEAR), heuristic_ids):
        note(1, _as_use(verdict, verdict.trajectory))
    for feedback in _newest(HeuristicFeedback.objects.filter(trajectory__isnull=False), heuristic_ids):
        assert feedback.trajectory is not None  # filtered
        note(0 if feedback.client == feedback.trajectory.client else 2, _as_use(feedback, feedback.trajectory))
    for feedback, trajectory in _feedback_on_answers(heuristic_ids):
        note(0 if feedback.client == trajectory.client else 2, _as_use(feedback, trajectory))
    uses: dict[UUID, list[Use]] = {}
    for _, use in best.values():
        uses.setdefault(use.heuristic_id, []).append(use)
    return uses


def _sum_up(uses: Sequence[Use]) -> Help:
    helped = {use.trajectory_id for use in uses if (use.verdict, use.outcome) == (_Verdict.FOLLOWED, "success")}
    return Help(helped=helped, others={use.trajectory_id for use in uses} - helped)


def _newest(rows: QuerySet[Any], heuristic_ids: Sequence[UUID]) -> Iterable[Any]:
    """Read only as many rows of a client as can count, however many it wrote."""
    row_number = Window(
        RowNumber(),
        partition_by=[F("heuristic_id"), F("trajectory__client")],
        order_by=[F("trajectory__created_at").desc(), F("trajectory_id").desc(), F("created_at"), F("pk")],
    )
    wanted = (
        rows.filter(_GIVEN, heuristic__in=heuristic_ids)
        .annotate(place=row_number)
        .filter(place__lte=2 * RUNS_OF_A_CLIENT)
    )
    return list(wanted.select_related("trajectory").defer("trajectory__steps").order_by("created_at", "pk"))


def _feedback_on_answers(heuristic_ids: Sequence[UUID]) -> Iterable[tuple[HeuristicFeedback, Trajectory]]:
    """Pair feedback on an answer with the runs that were given it."""
    rows = HeuristicFeedback.objects.filter(
        heuristic__in=heuristic_ids,
        trajectory__isnull=True,
        retrieval__trajectories__isnull=False,
        retrieval__injected_ids__contains=[F("heuristic_id")],
    )
    row_number = Window(
        RowNumber(), partition_by=[F("heuristic_id"), F("client")], order_by=[F("created_at").desc(), F("pk").desc()]
    )
    newest = list(rows.annotate(place=row_number).filter(place__lte=2 * RUNS_OF_A_CLIENT).distinct())
    runs: dict[UUID, list[Trajectory]] = {}
    if newest:
        given = Trajectory.objects.filter(retrieval__in=[feedback.retrieval_id for feedback in newest]).defer("steps")
        for trajectory in given.order_by("created_at", "pk"):
            assert trajectory.retrieval_id is not None  # filtered
            runs.setdefault(trajectory.retrieval_id, []).append(trajectory)
    for feedback in newest:
        assert feedback.retrieval_id is not None  # filtered
        for trajectory in runs.get(feedback.retrieval_id, ()):
            yield feedback, trajectory


def _as_use(row: Any, trajectory: Trajectory) -> Use:
    return Use(
        heuristic_id=row.heuristic_id,
        trajectory_id=trajectory.pk,
        at=trajectory.created_at,
        client=trajectory.client,
        verdict=row.verdict,
        outcome=trajectory.outcome,
    )
