"""Answers given to agents, each shown as it was, and their outcomes."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.text import Truncator

from desk.pages.trends import EndedRuns, Period, count_runs
from desk.runs.answer_comparison import AgainForm, compare_again, compare_with
from desk.shell.chosen_project import chosen_project
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import read_id
from memory.effects.interval import Share
from memory.effects.models import HeuristicFeedback
from memory.effects.outcomes import OutcomeCount, count_outcomes
from memory.heuristics.models import Heuristic
from memory.projects.access import visible_projects
from memory.redaction.visible_text import show_text
from memory.retrieval.context import get_label
from memory.retrieval.given_words import find_order_over
from memory.retrieval.models import Retrieval
from memory.retrieval.replay import describe_items, find_wordings, replay_block
from memory.runs.models import Trajectory

_NEARBY = 8
PERIODS_DAYS = (7, 30, 90, 365)
_SCORE_NAMES = {
    "score": "score",
    "meaning": "meaning",
    "words": "words",
    "source_task": "earlier tasks",
    "names": "names",
    "similarity": "similarity",
    "informativeness": "informativeness",
    "rerank": "cross-encoder",
    "usefulness": "× usefulness",
    "family": "× task family",
}


@admin.register(Retrieval)
class RetrievalAdmin(ReadOnlyAdmin[Retrieval]):
    change_form_template = "admin/memory/retrieval/replay.html"
    change_list_template = "admin/memory/retrieval/change_list.html"
    list_display = ["task_line", "mode", "lessons", "tokens", "degraded", "agent", "project", "created_at"]
    list_filter = ["mode", "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["task", "request_id"]
    date_hierarchy = "created_at"
    list_title = "Answers"
    nothing_yet = "No agent has asked for lessons yet. They do with POST /api/v1/retrieve."

    @admin.display(description="task")
    def task_line(self, retrieval: Retrieval) -> str:
        return show_text(Truncator(retrieval.task).chars(100)) or "(erased)"

    @admin.display(description="lessons")
    def lessons(self, retrieval: Retrieval) -> int:
        return len(retrieval.injected_ids)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.outcomes_view)
        again = self.admin_site.admin_view(self.again_view)
        return [
            path("outcomes/", view, name="memory_retrieval_outcomes"),
            path("<uuid:retrieval_id>/again/", again, name="memory_retrieval_again"),
            *super().get_urls(),
        ]

    def again_view(self, request: HttpRequest, retrieval_id: UUID) -> HttpResponse:
        """Compare an answer with the same question asked again, or with another answer of the project."""
        rows = self.get_queryset(request).select_related("project")
        retrieval = get_object_or_404(rows, pk=retrieval_id)
        if not self.has_view_permission(request, retrieval):
            raise PermissionDenied
        form = AgainForm.for_answer(retrieval, request.GET if "mode" in request.GET else None)
        shown: dict[str, Any] = {}
        if request.GET.get("with"):
            other = rows.filter(project=retrieval.project_id, pk__in=[read_id(request.GET["with"])]).first()
            shown = compare_with(retrieval, other) if other else {"missing": True}
        elif form.is_bound and form.is_valid() and retrieval.task:
            shown = compare_again(request, retrieval, form.cleaned_data)
        nearby = rows.filter(project=retrieval.project_id, task_id=retrieval.task_id).exclude(pk=retrieval.pk)
        shown["nearby"] = nearby.order_by("-created_at")[:_NEARBY]
        template = "admin/memory/retrieval/again.html"
        return self.draw(request, template, "Compare an answer", retrieval=retrieval, form=form, **shown)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Retrieval]:
        rows = super().get_queryset(request)
        match = request.resolver_match
        if match is None or match.url_name != "memory_retrieval_change":
            return rows
        # Only the page of an answer shows the runs that followed.
        runs = Prefetch("trajectories", Trajectory.objects.defer("steps").order_by("created_at"), to_attr="runs")
        feedback = Prefetch("verdicts", HeuristicFeedback.objects.order_by("created_at"), to_attr="given_feedback")
        return rows.select_related("project").prefetch_related(runs, feedback)

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Show an answer again, from the question to the runs that followed. A fixed number of queries."""
        retrieval: Any = row
        wordings = find_wordings(retrieval)
        by_heuristic = {str(revision.heuristic_id): revision for revision in wordings}
        feedback: dict[str, list[HeuristicFeedback]] = {}
        for statement in retrieval.given_feedback:
            feedback.setdefault(str(statement.heuristic_id), []).append(statement)
        lessons = [
            {
                **item,
                "place": rank,
                "id": item["heuristic"],
                "label": get_label(item["heuristic"]),
                "scores": [(_SCORE_NAMES.get(name, name), value) for name, value in item["scores"].items()],
                "revision": by_heuristic.get(item["heuristic"]),
                "feedback": feedback.get(item["heuristic"], []),
            }
            for rank, item in enumerate(describe_items(retrieval, wordings), 1)
        ]
        options = []
        for name, value in retrieval.options.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            options.append((name.replace("_", " "), "left out" if value is False else text))
        names = _name_heuristics(retrieval.considered_ids)
        return {
            "retrieval": retrieval,
            "options": options,
            "lessons": lessons,
            "injected_count": sum(lesson["injected"] for lesson in lessons),
            "replayed": replay_block(retrieval, wordings),
            "order": find_order_over(retrieval),
            "passed_over": [
                {"id": id, "text": names.get(id, ""), "score": score}
                for id, score in zip(retrieval.considered_ids, retrieval.considered_scores, strict=True)
            ],
        }

    def outcomes_view(self, request: HttpRequest) -> HttpResponse:
        """Show how the runs ended that were given answers, by mode, family and lesson."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        wanted = request.GET.get("days", "")
        days = int(wanted) if wanted in map(str, PERIODS_DAYS) else 30
        project = chosen_project(request)
        projects = [project.pk] if project else list(visible_projects(request.user).values_list("pk", flat=True))
        baseline = sum(count_runs(request, Period.last(days)).without, EndedRuns()).share
        counted = count_outcomes(projects, since=timezone.now() - timedelta(days=days))
        lessons = {row.heuristic_id: row for row in counted.by_heuristic if row.heuristic_id}
        names = _name_heuristics(lessons)
        context = {
            "days": days,
            "periods": PERIODS_DAYS,
            "baseline": baseline,
            "by_mode": [(row, _percent(row)) for row in counted.by_mode],
            "by_family": [(row, _percent(row)) for row in counted.by_family],
            "by_heuristic": [(row, names.get(id, ""), _percent(row)) for id, row in lessons.items()],
        }
        return self.draw(request, "admin/memory/retrieval/outcomes.html", "Outcomes of answers", **context)


def _name_heuristics(ids: Iterable[UUID]) -> dict[UUID, str]:
    rows = Heuristic.objects.filter(pk__in=list(ids)).select_related("current_revision")
    return {heuristic.pk: str(heuristic) for heuristic in rows}


def _percent(row: OutcomeCount) -> str:
    return str(Share(successes=row.successes, known=row.successes + row.failures))
