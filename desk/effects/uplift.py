"""What lessons do, on the pages of releases, of deployments and of single lessons."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from desk.shell.chosen_project import chosen_project, offered_projects
from desk.shell.pages import Figure
from desk.shell.plots import draw_interval
from evaluation.experiments.analysis import show_e_value
from evaluation.experiments.uplift import Uplift, measure_uplift, measure_whole
from evaluation.reports.experiments import show_points
from evaluation.sequential import FIRST_LOOK
from memory.effects.comparison import compare_lessons
from memory.effects.harm import describe_points
from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.releases.deployments import get_deployment
from memory.releases.models import Release

DAYS = 90
_IN_USE = (Heuristic.Status.APPROVED, Heuristic.Status.RETIRED)


def show_uplift(uplift: Uplift) -> str:
    """Return an uplift as people read it, "+6.1 points [2.0, 10.2]", and why it says nothing where it does not."""
    if uplift.is_doubtful:
        return f"not comparable: outcomes are missing (e = {show_e_value(uplift.missing_e_value)})"
    if uplift.estimate is None or uplift.interval is None:
        return f"too few: {uplift.guided:,} with, {uplift.held_out:,} without"
    points = show_points(uplift.estimate, uplift.interval.low, uplift.interval.high)
    return points if uplift.is_told else f"{points}, no effect found yet"


def say_uplift(uplift: Uplift) -> str:
    """Return in a sentence what lessons do as a whole."""
    units = f"{uplift.guided:,} units with lessons, {uplift.held_out:,} without"
    if uplift.estimate is None:
        return f"Whether lessons help is not known: {units}."
    if uplift.is_doubtful:
        return (
            "Nothing can be said about whether lessons help: outcomes are missing more often on one side "
            f"(e = {show_e_value(uplift.missing_e_value)}), which alone can make it look better. Known: {units}."
        )
    if uplift.interval is None:
        return f"Too little is known to say whether lessons help: {units}. Each side needs {FIRST_LOOK}."
    points = show_points(uplift.estimate, uplift.interval.low, uplift.interval.high)
    verdict = (
        "help" if uplift.interval.low > 0 else "do harm" if uplift.interval.high < 0 else "have no effect found yet"
    )
    return f"Lessons {verdict}: {points}, {units}."


def describe_effect(request: HttpRequest) -> list[Figure]:
    """Return what the lessons of the chosen project do against its hold-out, for the home page. Two queries."""
    if not request.user.has_perm("evaluation.view_experiment"):
        return []
    offered = offered_projects(request)
    project = chosen_project(request) or (offered[0] if len(offered) == 1 else None)
    if project is None:
        return [_write_figure(note="Choose a project to see what its lessons do.")]
    link = reverse("admin:memory_deployment_of", args=[project.pk])
    if not get_deployment(project).holdout_share:
        return [_write_figure(note="Set a hold-out: a share of the runs without lessons, to compare with.", link=link)]
    whole = measure_whole(project, since=_since())
    units = f"{whole.guided:,} units with lessons, {whole.held_out:,} without, {DAYS} days"
    if whole.is_doubtful:
        return [_write_figure(note=f"Outcomes are missing more often on one side; {units}", link=link)]
    if whole.estimate is None or whole.interval is None:
        return [_write_figure(note=units, link=link)]
    low, high = 100 * whole.interval.low, 100 * whole.interval.high
    prefix = "" if whole.is_told else "No effect found yet. "
    # A minus sign, which is as wide as a plus.
    note = f"{prefix}95% interval {low:+.1f} to {high:+.1f}; {units}".replace("-", "−")
    return [_write_figure(value=f"{100 * whole.estimate:+.1f} points".replace("-", "−"), note=note, link=link)]


def _write_figure(*, value: str = "Cannot tell yet", note: str, link: str = "") -> Figure:
    return Figure(label="Effect of lessons on success", value=value, note=note, link=link, is_large=True)


def draw_release_uplift(releases: Sequence[Release]) -> dict[UUID, SafeString]:
    """Draw success with the lessons of each release minus success in the hold-out. Three queries for each project."""
    numbers: dict[UUID, dict[int, UUID]] = {}
    for release in releases:
        numbers.setdefault(release.project_id, {})[release.number] = release.pk
    uplifts: dict[UUID, Uplift] = {}
    for project in Project.objects.filter(pk__in=numbers, deployment__isnull=False):
        shown, measured = numbers[project.pk], measure_uplift(project, since=_since()).by_release
        uplifts |= {shown[number]: uplift for number, uplift in measured.items() if number in shown}
    return draw_line(uplifts)


def draw_line(found: Mapping[UUID, Uplift]) -> dict[UUID, SafeString]:
    """Draw intervals on one scale, so that they can be compared along the line."""
    edges = [
        edge
        for measured in found.values()
        if measured.interval
        for edge in (measured.interval.low, measured.interval.high)
    ]
    reach = max((abs(edge) for edge in edges), default=0.0) or 1.0
    return {pk: _draw(uplift, reach) for pk, uplift in found.items() if uplift.estimate is not None}


def list_families(found: Mapping[str, Uplift]) -> list[dict[str, Any]]:
    """Return a row for each task family."""
    return [
        {
            "family": name or "no task family",
            "shown": show_uplift(uplift),
            "guided": uplift.guided,
            "held_out": uplift.held_out,
        }
        for name, uplift in found.items()
    ]


def describe_lesson_effect(heuristic: Heuristic) -> dict[str, Any] | None:
    """Return how runs with a lesson compare with similar runs, if there are any."""
    if heuristic.status not in _IN_USE:
        return None
    effects = compare_lessons([heuristic.project_id], since=_since())
    effect = next((row for row in effects if row.heuristic_id == heuristic.pk), None)
    if effect is None:
        return None
    context: dict[str, Any] = {"effect": effect, "days": DAYS, "project": heuristic.project_id}
    if effect.difference is not None and effect.interval is not None:
        context["points"] = describe_points(effect.difference, effect.interval)
    return context


def _draw(uplift: Uplift, reach: float) -> SafeString:
    drawn: dict[str, Any] = {"uplift": uplift, "shown": show_uplift(uplift)}
    if uplift.interval is not None:
        low, high = uplift.interval.low, uplift.interval.high
        drawn["chart"] = draw_interval(low, uplift.estimate or 0.0, high, reach=reach)
    return render_to_string("admin/evaluation/uplift.html", drawn)


def _since() -> datetime:
    return timezone.now() - timedelta(days=DAYS)
