"""Count how useful a lesson has been from the runs that were given it, so that anyone can recount it.

The number is 0–1 and 0.5 where nothing is known (reference: ERL c.1, after MemRL and MemOS): over the runs that
followed the lesson, in the order in which the runs were recorded, Q ← Q + 0.1 · trust · (reward − Q) from 0.5; then it
is drawn towards 0.5 by five pseudo-counts. It is recounted from rows every time, so it does not matter in which order
verdicts and outcomes arrive. One run counts once, and of one client only the newest runs count (reliability D4).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from memory.effects.helped_tasks import Help, note_help
from memory.effects.models import HeuristicFeedback, UsageVerdict
from memory.events import Event, EventKind, announce
from memory.heuristics.models import Heuristic
from memory.runs.models import Trajectory

VERSION = "1"
NEUTRAL = 0.5
RATE = 0.1
PSEUDO_COUNTS = 5
RUNS_OF_A_CLIENT = 20
HARMFUL_USEFULNESS = 0.4
HARMFUL_RUNS = 5
# How far an outcome is believed, by who stated it (reference: ERL 1.7: a judge of its own run is right 7 times in 10)
TRUST = {"environment": 1.0, "test": 1.0, "human": 1.0, "judge": 0.7, "agent": 0.5}

_COUNTED = ["usefulness", "usefulness_basis", "usefulness_version"]
_IN_USE = (Heuristic.Status.APPROVED, Heuristic.Status.PROPOSED)
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
    score: float | None = None
    outcome_source: str = "agent"
    helpful: bool | None = None

    @property
    def reward(self) -> float | None:
        """What the run says of the lesson, 0–1, or None where it says nothing.

        A run that went another way and succeeded did not need the lesson; one that failed proves nothing.
        """
        ended = self.score if self.score is not None else {"success": 1.0, "failure": 0.0}.get(self.outcome)
        if self.verdict == _Verdict.FOLLOWED:
            return ended if ended is not None or self.helpful is None else float(self.helpful)
        if self.verdict == _Verdict.CONTRADICTED and self.outcome == Trajectory.Outcome.SUCCESS:
            return 0.0
        return None


def count_usefulness(uses: Iterable[Use]) -> tuple[float, dict[str, Any]]:
    """Return how useful a lesson is, 0–1, and what that was counted from, independent of the order of its uses."""
    ordered = sorted({use.trajectory_id: use for use in uses}.values(), key=lambda use: (use.at, use.trajectory_id))
    of_client: Counter[str] = Counter()
    counted: list[Use] = []
    for use in reversed(ordered):
        of_client[use.client] += 1
        if of_client[use.client] <= RUNS_OF_A_CLIENT:
            counted.append(use)
    quality, weight = NEUTRAL, 0.0
    tally: Counter[str] = Counter()
    for use in reversed(counted):
        tally[use.verdict] += 1
        if use.verdict == _Verdict.FOLLOWED:
            tally[f"followed_{use.outcome}"] += 1
        if use.reward is not None:
            trust = TRUST.get(use.outcome_source, TRUST["agent"])
            quality += RATE * trust * (use.reward - quality)
            weight += trust
    usefulness = (weight * quality + PSEUDO_COUNTS * NEUTRAL) / (weight + PSEUDO_COUNTS)
    basis = {
        "runs": len(counted),
        "clients": len(of_client),
        "left_out": len(ordered) - len(counted),
        "weight": round(weight, 3),
        "followed": tally[_Verdict.FOLLOWED],
        "followed_success": tally["followed_success"],
        "followed_failure": tally["followed_failure"],
        "contradicted": tally[_Verdict.CONTRADICTED],
        "not_applicable": tally[_Verdict.NOT_APPLICABLE],
    }
    return round(usefulness, 6), basis


@transaction.atomic
def refresh_usefulness(heuristic_ids: Iterable[UUID]) -> int:
    """Count the usefulness of these lessons again and keep it with them; return how many changed.

    Their rows are held while counting, so that of two who count at once the later one has seen everything.
    """
    # NO KEY: writing feedback takes a share lock on the row, and two such writers would otherwise deadlock here.
    rows = Heuristic.objects.select_for_update(no_key=True).filter(pk__in=list(heuristic_ids)).order_by("pk")
    heuristics = list(rows.only("project_id", "status", *_COUNTED))
    uses = find_uses([heuristic.pk for heuristic in heuristics])
    changed, helped, harmed = [], {}, []
    for heuristic in heuristics:
        usefulness, basis = count_usefulness(uses.get(heuristic.pk, ()))
        if (heuristic.usefulness, heuristic.usefulness_basis, heuristic.usefulness_version) != (
            usefulness,
            basis,
            VERSION,
        ):
            if basis["followed_success"] or heuristic.usefulness_basis.get("followed_success"):
                helped[heuristic.pk] = _sum_up(uses.get(heuristic.pk, []))
            was_harmful = is_harmful(heuristic.usefulness, heuristic.usefulness_basis)
            if heuristic.status in _IN_USE and is_harmful(usefulness, basis) and not was_harmful:
                harmed.append(heuristic)
            heuristic.usefulness, heuristic.usefulness_basis = usefulness, basis
            heuristic.usefulness_version = VERSION
            changed.append(heuristic)
    for heuristic in harmed:
        _announce_harm(heuristic)
    Heuristic.objects.bulk_update(changed, _COUNTED)
    if helped:
        note_help(helped)
    return len(changed)


def is_harmful(usefulness: float, basis: Mapping[str, Any]) -> bool:
    """Tell whether enough runs followed a lesson, and so many of them failed that it seems to do harm."""
    followed = basis.get("followed_success", 0) + basis.get("followed_failure", 0)
    return followed >= HARMFUL_RUNS and usefulness < HARMFUL_USEFULNESS


def _announce_harm(heuristic: Heuristic) -> None:
    basis = heuristic.usefulness_basis
    details = {
        "usefulness": round(heuristic.usefulness, 2),
        "followed": basis["followed_success"] + basis["followed_failure"],
        "failed": basis["followed_failure"],
    }
    event = Event(
        kind=EventKind.LESSON_HARMFUL, project_id=heuristic.project_id, lesson_ids=(heuristic.pk,), details=details
    )
    announce(event)


def refresh_usefulness_of_run(trajectory: Trajectory) -> int:
    """Count again what a run says something about, after its outcome or its verdicts changed."""
    return refresh_usefulness(find_lessons_of_run(trajectory))


def find_lessons_of_run(trajectory: Trajectory) -> list[UUID]:
    """Return the lessons a run says something about."""
    judged = UsageVerdict.objects.filter(trajectory=trajectory).values_list("heuristic_id", flat=True)
    told = HeuristicFeedback.objects.filter(_about(trajectory)).values_list("heuristic_id", flat=True)
    return sorted({*judged, *told})


def find_uses(heuristic_ids: Sequence[UUID]) -> dict[UUID, list[Use]]:
    """Return the runs that say something of these lessons, each once, in three queries.

    What the agent of a run says itself goes before what a judge read from it, and that before what others say.
    """
    found: dict[tuple[UUID, UUID], tuple[int, Use]] = {}

    def note(rank: int, use: Use) -> None:
        key = (use.heuristic_id, use.trajectory_id)
        if key not in found or rank < found[key][0]:
            found[key] = (rank, use)

    for verdict in _newest(UsageVerdict.objects.exclude(verdict=_Verdict.UNCLEAR), heuristic_ids):
        note(1, _as_use(verdict, verdict.trajectory))
    for said in _newest(HeuristicFeedback.objects.filter(trajectory__isnull=False), heuristic_ids):
        assert said.trajectory is not None  # filtered
        note(0 if said.client == said.trajectory.client else 2, _as_use(said, said.trajectory, helpful=said.helpful))
    for said, trajectory in _feedback_on_answers(heuristic_ids):
        note(0 if said.client == trajectory.client else 2, _as_use(said, trajectory, helpful=said.helpful))
    uses: dict[UUID, list[Use]] = {}
    for _, use in found.values():
        uses.setdefault(use.heuristic_id, []).append(use)
    return uses


def _sum_up(uses: Sequence[Use]) -> Help:
    helped = {use.trajectory_id for use in uses if (use.verdict, use.outcome) == (_Verdict.FOLLOWED, "success")}
    return Help(helped=helped, others={use.trajectory_id for use in uses} - helped)


def _newest(rows: QuerySet[Any], heuristic_ids: Sequence[UUID]) -> Iterable[Any]:
    """Read only as many rows of a client as can count, however many it wrote."""
    place = Window(
        RowNumber(),
        partition_by=[F("heuristic_id"), F("trajectory__client")],
        order_by=[F("trajectory__created_at").desc(), F("trajectory_id").desc(), F("created_at"), F("pk")],
    )
    wanted = (
        rows.filter(_GIVEN, heuristic__in=heuristic_ids).annotate(place=place).filter(place__lte=2 * RUNS_OF_A_CLIENT)
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
    place = Window(
        RowNumber(), partition_by=[F("heuristic_id"), F("client")], order_by=[F("created_at").desc(), F("pk").desc()]
    )
    newest = list(rows.annotate(place=place).filter(place__lte=2 * RUNS_OF_A_CLIENT).distinct())
    runs: dict[UUID, list[Trajectory]] = {}
    if newest:
        given = Trajectory.objects.filter(retrieval__in=[said.retrieval_id for said in newest]).defer("steps")
        for trajectory in given.order_by("created_at", "pk"):
            assert trajectory.retrieval_id is not None  # filtered
            runs.setdefault(trajectory.retrieval_id, []).append(trajectory)
    for said in newest:
        assert said.retrieval_id is not None  # filtered
        for trajectory in runs.get(said.retrieval_id, ()):
            yield said, trajectory


def _about(trajectory: Trajectory) -> Q:
    about = Q(trajectory=trajectory)
    return about | Q(retrieval=trajectory.retrieval_id) if trajectory.retrieval_id else about


def _as_use(row: Any, trajectory: Trajectory, *, helpful: bool | None = None) -> Use:
    return Use(
        heuristic_id=row.heuristic_id,
        trajectory_id=trajectory.pk,
        at=trajectory.created_at,
        client=trajectory.client,
        verdict=row.verdict,
        outcome=trajectory.outcome,
        score=trajectory.score,
        outcome_source=trajectory.outcome_source,
        helpful=helpful,
    )
