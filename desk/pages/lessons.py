"""Lessons with their effect, as far as it can be told: the difference, its interval, and what it is compared with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from desk.pages.insights import read_days
from desk.pages.trends import PERIODS_DAYS, Period
from desk.shell.chosen_project import chosen_project
from desk.shell.pages import page_context
from desk.shell.plots import draw_sparkline
from memory.effects.comparison import LessonEffect, compare_lessons, count_weeks
from memory.effects.harm import describe_company, describe_points
from memory.heuristics.models import Heuristic
from memory.projects.access import visible_projects

_PAGE_ROWS = 50
_MIN_WEEKS = 2  # a line needs two points
# What a column sorts by; unknown values come last in both directions.
_COLUMNS: dict[str, Callable[[LessonEffect], float | None]] = {
    "difference": lambda effect: effect.difference if effect.is_told_apart else None,
    "with": lambda effect: effect.given.rate,
    "runs": lambda effect: effect.given.known,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectRow:
    """One lesson of the list."""

    effect: LessonEffect
    heuristic: Heuristic | None
    points: str

    @property
    def difference(self) -> str:
        """Say the difference with its interval, or why there is none."""
        effect = self.effect
        if effect.never_applied:
            return "It applied to none of these runs"
        if effect.difference is None:
            return "Nothing to compare with"
        if effect.interval is None:
            return "Cannot tell yet"
        points = describe_points(effect.difference, effect.interval)
        return points if effect.is_told_apart else f"{points}, of all of them together"

    @property
    def basis(self) -> str:
        """Say what the difference is compared with, and what it is worth."""
        effect, strata = self.effect, self.effect.compared.strata
        if effect.together_with:
            return describe_company(len(effect.together_with))
        if effect.difference is None or effect.never_applied:
            return ""
        runs = f"{strata.given:,} against {strata.without:,} runs"
        if effect.is_by_chance:
            return f"By chance: {runs}" + (
                "" if effect.compared.is_reported_alike else "; outcomes are missing on one side"
            )
        return f"Association: {runs} of the same tasks"

    @property
    def is_sure(self) -> bool:
        """Tell whether this lesson has an effect, rather than an association or chance."""
        return self.effect.is_told_apart and self.effect.sign != 0


def lessons_page(request: HttpRequest) -> HttpResponse:
    """List the lessons that runs were given, sorted by a column."""
    if not request.user.has_perm("memory.view_heuristic"):
        raise PermissionDenied
    wanted = request.GET.get("sort", "-difference")
    column, is_falling = wanted.removeprefix("-"), wanted.startswith("-")
    if column not in _COLUMNS:
        column, is_falling = "difference", True
    days = read_days(request)
    page = _find_page(request, Period.last(days), column=column, is_falling=is_falling)
    shown: dict[str, Any] = {"days": days, "periods": PERIODS_DAYS, "page": page, "column": column}
    shown |= {"is_falling": is_falling, "rows": page.object_list}
    return TemplateResponse(request, "admin/lessons.html", page_context(request, "Effect of lessons", **shown))


def _find_page(request: HttpRequest, period: Period, *, column: str, is_falling: bool) -> Page[Any]:
    """Return one page of rows. Seven queries."""
    project = chosen_project(request)
    projects = [project.pk] if project else list(visible_projects(request.user).values_list("pk", flat=True))
    key = _COLUMNS[column]
    effects = compare_lessons(projects, since=period.since)
    measured = sorted((row for row in effects if key(row) is not None), key=lambda row: (key(row), row.given.known))
    ordered = [*(reversed(measured) if is_falling else measured), *(row for row in effects if key(row) is None)]
    page: Page[Any] = Paginator(ordered, _PAGE_ROWS).get_page(request.GET.get("page"))
    ids = [effect.heuristic_id for effect in page.object_list]
    lessons = Heuristic.objects.filter(project__in=projects).select_related("current_revision").in_bulk(ids)
    weeks = count_weeks(projects, since=period.since, heuristic_ids=ids)
    page.object_list = [
        EffectRow(
            effect=effect,
            heuristic=lessons.get(effect.heuristic_id),
            points=draw_sparkline(line) if len(line := weeks.get(effect.heuristic_id, [])) >= _MIN_WEEKS else "",
        )
        for effect in page.object_list
    ]
    return page
