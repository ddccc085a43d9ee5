"""What a reviewer's home page counts: the queue, the decisions, the runs and the answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Avg, Count, F, Min, Q
from django.db.models.functions import TruncWeek
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from memory.admin.panels import Figure, collect_figures
from memory.models import Heuristic, Retrieval, Review, Trajectory

WEEKS = 8
_TIME_COLUMN = "7"  # of the queue: when a proposal came
_LONG_WAIT = timedelta(days=7)
_Decision = Review.Decision
_Outcome = Trajectory.Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One week of a chart: a stack of two numbers, drawn bottom up in a field 100 high."""

    week: datetime
    first: int
    second: int
    x: float
    first_y: float
    first_height: float
    second_y: float
    second_height: float
    link: str

    @property
    def total(self) -> int:
        return self.first + self.second


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Bars by week, with the words for those who do not see them."""

    title: str
    first_label: str
    second_label: str
    bars: list[Bar]
    highest: int


def dashboard_context(user: AbstractBaseUser | AnonymousUser) -> dict[str, Any]:
    """Collect what a person may see of the numbers, in a fixed number of queries for each permission."""
    figures: list[Figure] = []
    charts: list[Chart] = []
    reviewers: list[dict[str, Any]] = []
    now = timezone.now()
    week = now - timedelta(days=7)
    if user.has_perm("memory.view_heuristic"):  # type: ignore[union-attr]
        figures += _count_queue(now)
    if user.has_perm("memory.view_review"):  # type: ignore[union-attr]
        figures += _count_decisions(week)
        reviewers = _count_reviewers(week)
    figures += collect_figures(user)
    if user.has_perm("memory.view_retrieval"):  # type: ignore[union-attr]
        figures += _count_answers(week)
        charts.append(_chart_answers(now))
    if user.has_perm("memory.view_trajectory"):  # type: ignore[union-attr]
        charts.insert(0, _chart_runs(now))
    return {"figures": figures, "charts": charts, "reviewers": reviewers}


def _list(name: str, **filters: str | datetime) -> str:
    """Return the address of a list; times begin with their day, as those of the admin's own filters do."""
    days = {key: _midnight(value) if isinstance(value, datetime) else value for key, value in filters.items()}
    return reverse(f"admin:memory_{name}_changelist", query=days)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _count_queue(now: datetime) -> Iterable[Figure]:
    queue = Heuristic.objects.proposed().aggregate(waiting=Count("id"), oldest=Min("created_at"))
    oldest = queue["oldest"]
    waiting = str(queue["waiting"])
    yield Figure(label="waiting for review", value=waiting, link=_list("heuristic", status__exact="proposed"))
    yield Figure(
        label="oldest wait",
        value=timesince(oldest, now, depth=1) if oldest else "none",
        link=_list("heuristic", status__exact="proposed", o=_TIME_COLUMN),
        alarming=bool(oldest and now - oldest > _LONG_WAIT),
    )


def _count_decisions(week: datetime) -> Iterable[Figure]:
    decided = Review.objects.filter(created_at__gte=week).aggregate(
        approved=Count("id", filter=Q(decision=_Decision.APPROVE)),
        refused=Count("id", filter=Q(decision__in=[_Decision.REJECT, _Decision.QUARANTINE, _Decision.MERGE])),
        seconds=Avg("seconds_on_screen"),
        wait=Avg(F("created_at") - F("revision__created_at"), filter=~Q(decision=_Decision.EDIT)),
    )
    total = decided["approved"] + decided["refused"]
    yield Figure(label="decided in 7 days", value=str(total), link=_list("review", created_at__gte=week))
    yield Figure(
        label="of them approved",
        value=f"{100 * decided['approved'] / total:.0f} %" if total else "–",
        link=_list("review", decision__exact="approve", created_at__gte=week),
    )
    seconds, wait = decided["seconds"], decided["wait"]
    yield Figure(
        label="time to decide",
        value=f"{seconds:.0f} s" if seconds is not None else "–",
        link=_list("review", created_at__gte=week),
        note=f"{timesince(week, week + wait, depth=1)} after the proposal" if wait else "",
    )


def _count_reviewers(week: datetime) -> list[dict[str, Any]]:
    decided = Review.objects.filter(created_at__gte=week).exclude(decision__in=[_Decision.EDIT, _Decision.UNDO])
    counted: Any = decided.values("reviewer").annotate(decisions=Count("id")).order_by("-decisions", "reviewer")[:8]
    most = max((row["decisions"] for row in counted), default=1)
    return [row | {"width": 100 * row["decisions"] / most} for row in counted]


def _count_answers(week: datetime) -> Iterable[Figure]:
    answers = Retrieval.objects.filter(created_at__gte=week)
    guided = Trajectory.objects.filter(created_at__gte=week, retrieval__isnull=False).aggregate(
        known=Count("id", filter=~Q(outcome=_Outcome.UNKNOWN)), good=Count("id", filter=Q(outcome=_Outcome.SUCCESS))
    )
    served = answers.exclude(heuristic_ids=[]).count()
    note = f"{guided['good']} of {guided['known']} runs with them succeeded" if guided["known"] else ""
    link = _list("retrieval", created_at__gte=week)
    yield Figure(label="answers with lessons, 7 days", value=str(served), link=link, note=note)


def _first_week(now: datetime) -> datetime:
    return _midnight(now - timedelta(days=now.weekday())) - timedelta(weeks=WEEKS - 1)


def _chart_runs(now: datetime) -> Chart:
    start = _first_week(now)
    rows = (
        Trajectory.objects.filter(created_at__gte=start)
        .annotate(week=TruncWeek("created_at"))
        .values_list("week")
        .annotate(good=Count("id", filter=Q(outcome=_Outcome.SUCCESS)), all=Count("id"))
        .order_by("week")
    )
    counts = {week: (good, total - good) for week, good, total in rows}
    return _draw("Runs recorded a week", "succeeded", "failed or unknown", counts, start, "trajectory")


def _chart_answers(now: datetime) -> Chart:
    start = _first_week(now)
    rows = (
        Retrieval.objects.filter(created_at__gte=start)
        .annotate(week=TruncWeek("created_at"))
        .values_list("week")
        .annotate(filled=Count("id", filter=~Q(heuristic_ids=[])), all=Count("id"))
        .order_by("week")
    )
    counts = {week: (filled, total - filled) for week, filled, total in rows}
    return _draw("Answers given a week", "with lessons", "without", counts, start, "retrieval")


def _draw(
    title: str,
    first_label: str,
    second_label: str,
    counts: dict[datetime, tuple[int, int]],
    start: datetime,
    name: str,
) -> Chart:
    highest = max((sum(pair) for pair in counts.values()), default=0)
    scale = 100 / highest if highest else 0
    bars = []
    for number in range(WEEKS):
        week = start + timedelta(weeks=number)
        first, second = counts.get(week, (0, 0))
        bars.append(
            Bar(
                week=week,
                first=first,
                second=second,
                x=number * 40 + 4,
                first_height=first * scale,
                first_y=110 - first * scale,
                second_height=second * scale,
                second_y=110 - (first + second) * scale,
                link=_list(name, created_at__gte=week, created_at__lt=week + timedelta(days=7)),
            )
        )
    return Chart(title=title, first_label=first_label, second_label=second_label, bars=bars, highest=highest)
