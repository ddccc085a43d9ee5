"""What happened on each day: runs and how they ended, decisions, what waited."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import BooleanField, Case, Count, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import TruncDay
from django.http import HttpRequest
from django.utils import timezone

from desk.shell.chosen_project import narrow_to_chosen
from desk.shell.plots import WEEKS
from memory.curation.review_statistics import APPROVALS, decisions
from memory.effects.interval import Share
from memory.heuristics.models import Heuristic
from memory.review.models import Review
from memory.runs.models import Trajectory

PERIODS_DAYS = (7, 30, 90)
_MOVING_DAYS = 7
_GIVEN = Q(retrieval__injected_ids__len__gt=0)
_LEAVES_QUEUE = (
    Review.Decision.APPROVE,
    Review.Decision.REJECT,
    Review.Decision.RETIRE,
    Review.Decision.QUARANTINE,
    Review.Decision.MERGE,
)


def midnight(at: datetime) -> datetime:
    """Return the beginning of a day."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def first_week(now: datetime) -> datetime:
    """Return the Monday that charts by week begin with."""
    return midnight(now - timedelta(days=now.weekday())) - timedelta(weeks=WEEKS - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Period:
    """The last days, today included."""

    days: Sequence[date]
    since: datetime

    @classmethod
    def last(cls, count: int) -> "Period":
        since = midnight(timezone.now()) - timedelta(days=count - 1)
        return cls(days=[(since + timedelta(days=number)).date() for number in range(count)], since=since)


@dataclass(kw_only=True, slots=True)
class EndedRuns:
    """Runs of one day: how many, and how those ended whose end is known."""

    runs: int = 0
    successes: int = 0
    failures: int = 0

    def __add__(self, other: "EndedRuns") -> "EndedRuns":
        return EndedRuns(
            runs=self.runs + other.runs,
            successes=self.successes + other.successes,
            failures=self.failures + other.failures,
        )

    @property
    def share(self) -> Share:
        return Share(successes=self.successes, known=self.successes + self.failures)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDays:
    """Runs by day, apart for those given lessons and those given none."""

    given: list[EndedRuns] = field(default_factory=list)
    without: list[EndedRuns] = field(default_factory=list)

    @property
    def runs(self) -> list[int]:
        return [given.runs + without.runs for given, without in zip(self.given, self.without, strict=True)]


def count_runs(request: HttpRequest, period: Period) -> RunDays:
    """Count the runs of each day. One query."""
    rows = narrow_to_chosen(Trajectory.objects.filter(created_at__gte=period.since), request).order_by()
    counted = (
        rows.annotate(
            day=TruncDay("created_at"),
            was_given=Case(When(_GIVEN, then=Value(True)), default=Value(False), output_field=BooleanField()),
        )
        .values_list("day", "was_given")
        .annotate(
            runs=Count("id"),
            successes=Count("id", filter=Q(outcome=Trajectory.Outcome.SUCCESS)),
            failures=Count("id", filter=Q(outcome=Trajectory.Outcome.FAILURE)),
        )
    )
    by_day = {
        (day.date(), given): EndedRuns(runs=runs, successes=good, failures=bad)
        for day, given, runs, good, bad in counted
    }
    return RunDays(
        given=[by_day.get((day, True), EndedRuns()) for day in period.days],
        without=[by_day.get((day, False), EndedRuns()) for day in period.days],
    )


def count_decisions(request: HttpRequest, period: Period) -> dict[str, list[int]]:
    """Count the decisions on lessons of each day, and how many of them approved. One query."""
    rows = decisions(narrow_to_chosen(Review.objects.filter(created_at__gte=period.since), request)).order_by()
    counted = (
        rows.annotate(day=TruncDay("created_at"))
        .values_list("day")
        .annotate(all=Count("id"), approved=Count("id", filter=Q(decision__in=APPROVALS)))
    )
    by_day = {day.date(): (total, approved) for day, total, approved in counted}
    pairs = [by_day.get(day, (0, 0)) for day in period.days]
    return {"all": [total for total, _ in pairs], "approved": [approved for _, approved in pairs]}


def count_waiting(request: HttpRequest, period: Period) -> list[int]:
    """Count the lessons that waited for their first decision at the end of each day. Three queries."""
    heuristics = narrow_to_chosen(Heuristic.objects.all(), request)
    left = Review.objects.filter(subject_id=OuterRef("pk"), decision__in=_LEAVES_QUEUE).order_by("created_at")
    first = heuristics.annotate(decided_at=Subquery(left.values("created_at")[:1]))
    undecided = first.filter(decided_at__isnull=True, status=Heuristic.Status.PROPOSED)
    counted = Q(decided_at__isnull=False) | Q(status=Heuristic.Status.PROPOSED)
    waiting = undecided.count()
    came = _by_day(first.filter(counted, created_at__gte=period.since), "created_at")
    went = _by_day(first.filter(decided_at__gte=period.since), "decided_at")
    counts = []
    # Back in time from what waits now: what left on a day waited before it, and what came did not.
    for day in reversed(period.days):
        counts.append(waiting)
        waiting += went[day] - came[day]
    return counts[::-1]


def average(days: Sequence[EndedRuns]) -> list[Share | None]:
    """Return for each day the share of successes in the seven days that end with it; None without a known end."""
    shares = [sum(days[max(end - _MOVING_DAYS, 0) : end], EndedRuns()).share for end in range(1, len(days) + 1)]
    return [share if share.known else None for share in shares]


def _by_day(rows: QuerySet[Any], column: str) -> Counter[date]:
    return Counter(at.date() for (at,) in rows.values_list(column))
