"""Insights: how runs, decisions, cost and the queue change, and which task families lack a lesson."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.urls import reverse

from desk.pages.trends import (
    PERIODS_DAYS,
    EndedRuns,
    Period,
    RunDays,
    average,
    count_decisions,
    count_runs,
    count_waiting,
)
from desk.shell.chosen_project import narrow_to_chosen
from desk.shell.pages import page_context
from desk.shell.plots import Plot, Series, draw_plot
from memory.effects.interval import Share
from memory.heuristics.models import HeuristicRevision
from memory.runs.models import Trajectory
from reflection.llm.models import DailySpend

_DEFAULT_DAYS = 30
_SHOWN_FAMILIES = 100


def insights_page(request: HttpRequest) -> HttpResponse:
    """Show the trends of a period."""
    days = read_days(request)
    period = Period.last(days)
    user: Any = request.user
    plots: list[Plot] = []
    shares: dict[str, Share] = {}
    if user.has_perm("memory.view_trajectory"):
        runs = count_runs(request, period)
        shares = {"with": sum(runs.given, EndedRuns()).share, "without": sum(runs.without, EndedRuns()).share}
        plots += [_plot_runs(runs, period), _plot_success(runs, period, shares)]
    if user.has_perm("memory.view_review"):
        plots.append(_plot_decisions(request, period))
    if user.has_perm("memory.view_heuristic"):
        plots.append(_plot_waiting(request, period))
    if user.has_perm("reflection.view_dailyspend"):
        plots += _plot_cost(request, period)
    shown = {"days": days, "periods": PERIODS_DAYS, "plots": plots, "shares": shares}
    return TemplateResponse(request, "admin/insights.html", page_context(request, "Trends", **shown))


def coverage_page(request: HttpRequest) -> HttpResponse:
    """List the task families, first those that fail most without a lesson."""
    if not request.user.has_perm("memory.view_trajectory"):
        raise PermissionDenied
    days = read_days(request)
    families = find_families(request, Period.last(days))
    shown = {
        "days": days,
        "periods": PERIODS_DAYS,
        "gaps": [family for family in families if not family["lessons"]],
        "covered": [family for family in families if family["lessons"]],
    }
    return TemplateResponse(request, "admin/coverage.html", page_context(request, "Gaps", **shown))


def read_days(request: HttpRequest) -> int:
    """Return the period that an address asks for."""
    wanted = request.GET.get("days", "")
    return int(wanted) if wanted in map(str, PERIODS_DAYS) else _DEFAULT_DAYS


def find_families(request: HttpRequest, period: Period) -> list[dict[str, Any]]:
    """Return the task families with runs in a period, those with the most failures first. Two queries."""
    rows = narrow_to_chosen(Trajectory.objects.filter(created_at__gte=period.since).exclude(task_id=""), request)
    counted = (
        rows.order_by()
        .values_list("project_id", "project__name", "task_id")
        .annotate(
            runs=Count("id"),
            good=Count("id", filter=Q(outcome=Trajectory.Outcome.SUCCESS)),
            bad=Count("id", filter=Q(outcome=Trajectory.Outcome.FAILURE)),
            given=Count("id", filter=Q(retrieval__injected_ids__len__gt=0)),
        )
        .order_by("-bad", "task_id")[:_SHOWN_FAMILIES]
    )
    live = narrow_to_chosen(HeuristicRevision.objects.filter(live=True).exclude(task_id=""), request)
    lessons = {
        (project, family): count
        for project, family, count in live.order_by().values_list("project_id", "task_id").annotate(count=Count("id"))
    }
    return [
        {
            "name": name,
            "project": project_name,
            "runs": runs,
            "failures": bad,
            "share": Share(successes=good, known=good + bad),
            "given": given,
            "lessons": lessons.get((project, name), 0),  # of its own, that agents may get
            "link": reverse("admin:memory_trajectory_changelist", query={"task_id": name, "outcome__exact": "failure"}),
        }
        for project, project_name, name, runs, good, bad, given in counted
    ]


def _plot_runs(runs: RunDays, period: Period) -> Plot:
    days = list(zip(runs.given, runs.without, strict=True))
    series = [
        Series(label="all", style="quiet", values=runs.runs),
        Series(label="succeeded", style="first", values=[given.successes + none.successes for given, none in days]),
        Series(label="failed", style="bad", values=[given.failures + none.failures for given, none in days]),
    ]
    total = sum(runs.runs)
    summary = f"{total:,} run{pluralize(total)} in {len(period.days)} days."
    return draw_plot("Runs per day", series, days=period.days, summary=summary)


def _plot_success(runs: RunDays, period: Period, shares: dict[str, Share]) -> Plot:
    series = [
        _moving("given lessons", "first", runs.given, has_band=True),
        _moving("given none", "quiet", runs.without, has_band=False),
    ]
    summary = f"With lessons {shares['with']}; without {shares['without']}."
    return draw_plot("Success, 7-day average", series, days=period.days, summary=summary, is_share=True)


def _moving(label: str, style: str, days: list[EndedRuns], *, has_band: bool) -> Series:
    shares = average(days)
    return Series(
        label=label,
        style=style,
        values=[share.rate if share else None for share in shares],
        lows=[share.low if share else None for share in shares] if has_band else (),
        highs=[share.high if share else None for share in shares] if has_band else (),
    )


def _plot_decisions(request: HttpRequest, period: Period) -> Plot:
    counted = count_decisions(request, period)
    series = [
        Series(label="all", style="quiet", values=counted["all"]),
        Series(label="approved", style="first", values=counted["approved"]),
    ]
    total = sum(counted["all"])
    summary = f"{total:,} decision{pluralize(total)}, {sum(counted['approved']):,} approved."
    return draw_plot("Decisions per day", series, days=period.days, summary=summary)


def _plot_waiting(request: HttpRequest, period: Period) -> Plot:
    counts = count_waiting(request, period)
    series = [Series(label="lessons", style="first", values=counts)]
    summary = f"Now {counts[-1]:,}; {len(counts) - 1} days ago {counts[0]:,}."
    return draw_plot("Waiting for a first decision", series, days=period.days, summary=summary)


def _plot_cost(request: HttpRequest, period: Period) -> list[Plot]:
    """Draw what models cost, in US dollars by day, if they were called."""
    rows = narrow_to_chosen(DailySpend.objects.filter(day__gte=period.days[0]), request).order_by()
    costs = {day: float(cost) for day, cost in rows.values_list("day").annotate(cost=Sum("cost_usd"))}
    if not costs:
        return []
    series = [Series(label="US dollars", style="first", values=[costs.get(day, 0.0) for day in period.days])]
    summary = f"${sum(costs.values()):,.2f} in {len(period.days)} days."
    return [draw_plot("Model cost per day", series, days=period.days, summary=summary, unit="${:,.2f}")]
