"""The home page: figures and charts about the queue, decisions, runs and answers."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Avg, Count, F, Func, IntegerField, Min, Q, Sum
from django.db.models.functions import TruncWeek
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from memory.admin.charts import Chart, draw_weeks, first_week, midnight
from memory.admin.panels import Figure, collect_figures
from memory.admin.retrieval import judge_searches
from memory.curation.review_statistics import APPROVALS, Median, decisions
from memory.heuristics.models import Heuristic, Review
from memory.projects.access import narrow_to_projects
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory

_LONG_WAIT = timedelta(days=7)
_Decision = Review.Decision
_Outcome = Trajectory.Outcome
_ENDED = {
    "good": Count("id", filter=Q(outcome=_Outcome.SUCCESS)),
    "bad": Count("id", filter=Q(outcome=_Outcome.FAILURE)),
}
_GIVEN_LESSONS = Q(retrieval__injected_ids__len__gt=0)


def dashboard_context(user: AbstractBaseUser | AnonymousUser) -> dict[str, Any]:
    """Collect what a person may see of the numbers of their projects, in a fixed number of queries a permission."""
    figures: list[Figure] = []
    charts: list[Chart] = []
    reviewers: list[dict[str, Any]] = []
    now = timezone.now()
    week = now - timedelta(days=7)
    if user.has_perm("memory.view_heuristic"):  # type: ignore[union-attr]
        figures += _count_queue(user, now)
    if user.has_perm("memory.view_review"):  # type: ignore[union-attr]
        figures += _count_decisions(user, week)
        reviewers = _count_reviewers(user, week)
    figures += collect_figures(user)
    if user.has_perm("memory.view_trajectory"):  # type: ignore[union-attr]
        figures += _count_runs(user, week)
        charts.append(_chart_runs(user, now))
    if user.has_perm("memory.view_retrieval"):  # type: ignore[union-attr]
        figures += [*_count_answers(user, week), *judge_searches(user)]
        charts += [_chart_answers(user, now), _chart_guided(user, now)]
    return {"figures": figures, "charts": charts, "reviewers": reviewers}


def _list(name: str, **filters: str | datetime) -> str:
    """Return the address of a list; times begin with their day, as those of the admin's own filters do."""
    days = {key: midnight(value) if isinstance(value, datetime) else value for key, value in filters.items()}
    return reverse(f"admin:memory_{name}_changelist", query=days)


def _count_queue(user: Any, now: datetime) -> Iterable[Figure]:
    queue = narrow_to_projects(Heuristic.objects.proposed().leading(), user).aggregate(
        waiting=Count("id"), oldest=Min("created_at")
    )
    oldest = queue["oldest"]
    waiting = str(queue["waiting"])
    yield Figure(label="waiting for review", value=waiting, link=_list("heuristic", status__exact="proposed"))
    yield Figure(
        label="longest wait",
        value=timesince(oldest, now, depth=1) if oldest else "none",
        link=_list("heuristic", status__exact="proposed", order="oldest"),
        alarming=bool(oldest and now - oldest > _LONG_WAIT),
    )


def _count_decisions(user: Any, week: datetime) -> Iterable[Figure]:
    counted = _decisions(user, week).aggregate(
        all=Count("id"),
        approved=Count("id", filter=Q(decision__in=APPROVALS)),
        seconds=Median(F("seconds_on_screen")),
        wait=Avg(F("created_at") - F("revision__created_at")),
    )
    total, seconds, wait = counted["all"], counted["seconds"], counted["wait"]
    link = _list("review", created_at__gte=week)
    yield Figure(label="decisions, 7 days", value=str(total), link=link)
    yield Figure(
        label="approved",
        value=f"{100 * counted['approved'] / total:.0f}%" if total else "–",
        link=_list("review", decision__in=",".join(APPROVALS), created_at__gte=week),
    )
    yield Figure(
        label="time to decide",
        value=f"{seconds:.0f} s" if seconds is not None else "–",
        link=reverse("admin:memory_review_statistics", query={"days": 7}),
        note=f"{timesince(week, week + wait, depth=1)} from proposal to decision" if wait else "",
    )


def _decisions(user: Any, week: datetime) -> Any:
    return decisions(narrow_to_projects(Review.objects.filter(created_at__gte=week), user))


def _count_reviewers(user: Any, week: datetime) -> list[dict[str, Any]]:
    counted = _decisions(user, week).values("reviewer").annotate(decisions=Count("id"))
    busiest = counted.order_by("-decisions", "reviewer")[:8]
    most = max((row["decisions"] for row in busiest), default=1)
    return [
        row
        | {
            "width": 100 * row["decisions"] / most,
            "link": _list("review", reviewer=row["reviewer"], created_at__gte=week),
        }
        for row in busiest
    ]


def _count_runs(user: Any, week: datetime) -> Iterable[Figure]:
    runs = narrow_to_projects(Trajectory.objects.filter(created_at__gte=week), user)
    counted = runs.aggregate(all=Count("id"), **_ENDED)
    known = counted["good"] + counted["bad"]
    yield Figure(
        label="runs recorded, 7 days", value=str(counted["all"]), link=_list("trajectory", created_at__gte=week)
    )
    yield Figure(
        label="succeeded",
        value=f"{100 * counted['good'] / known:.0f}%" if known else "–",
        link=_list("trajectory", created_at__gte=week, outcome__exact="success"),
        note=f"{counted['good']} of {known} with a known outcome" if known else "",
    )


def _count_answers(user: Any, week: datetime) -> Iterable[Figure]:
    size = Func(F("injected_ids"), function="cardinality", output_field=IntegerField())
    answers = narrow_to_projects(Retrieval.objects.filter(created_at__gte=week), user)
    counted = answers.exclude(injected_ids=[]).aggregate(answers=Count("id"), lessons=Sum(size))
    guided = narrow_to_projects(Trajectory.objects.filter(created_at__gte=week), user).filter(_GIVEN_LESSONS)
    ended = guided.aggregate(**_ENDED)
    known = ended["good"] + ended["bad"]
    yield Figure(
        label="lessons given, 7 days",
        value=str(counted["lessons"] or 0),
        link=_list("retrieval", created_at__gte=week),
        note=f"in {counted['answers']} answer{'s' if counted['answers'] != 1 else ''}",
    )
    yield Figure(
        label="success rate with lessons",
        value=f"{100 * ended['good'] / known:.0f}%" if known else "–",
        link=_list("trajectory", created_at__gte=week, given="yes"),
        note=f"{ended['good']} of {known} with a known outcome" if known else "",
    )


def _chart_runs(user: Any, now: datetime) -> Chart:
    runs = narrow_to_projects(Trajectory.objects.all(), user)
    labels = ("Runs per week", "succeeded", "failed or unknown")
    return _chart(labels, runs, Q(outcome=_Outcome.SUCCESS), now, "trajectory")


def _chart_answers(user: Any, now: datetime) -> Chart:
    answers = narrow_to_projects(Retrieval.objects.all(), user)
    return _chart(("Answers per week", "with lessons", "without"), answers, ~Q(injected_ids=[]), now, "retrieval")


def _chart_guided(user: Any, now: datetime) -> Chart:
    runs = narrow_to_projects(Trajectory.objects.filter(_GIVEN_LESSONS), user)
    labels = ("Runs given lessons per week", "succeeded", "failed or unknown")
    return _chart(labels, runs, Q(outcome=_Outcome.SUCCESS), now, "trajectory", given="yes")


def _chart(labels: tuple[str, str, str], rows: Any, first: Q, now: datetime, name: str, **filters: str) -> Chart:
    start = first_week(now)
    counted = (
        rows.filter(created_at__gte=start)
        .annotate(week=TruncWeek("created_at"))
        .values_list("week")
        .annotate(first=Count("id", filter=first), all=Count("id"))
        .order_by("week")
    )
    return draw_weeks(
        *labels,
        {week: (some, total - some) for week, some, total in counted},
        start=start,
        link=lambda since, until: _list(name, created_at__gte=since, created_at__lt=until, **filters),
    )
