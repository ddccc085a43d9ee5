"""Answers given to agents, each shown as it was, and their outcomes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.text import Truncator

from desk.pages.trends import EndedRuns, Period, count_runs
from desk.runs.answer_comparison import AgainForm, compare_again, compare_with
from desk.shell.chosen_project import chosen_project
from desk.shell.read_only import ReadOnlyAdmin
from memory.effects.interval import Share
from memory.effects.models import HeuristicFeedback
from memory.effects.outcomes import OutcomeCount, count_outcomes
from memory.heuristics.models import Heuristic, HeuristicRevision
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


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerItem:
    """A lesson of an answer, with why it is there and what agents said about it."""

    place: int
    id: str
    label: str
    injected: bool
    reason: str
    subtask: str
    matched_task: str
    scores: list[tuple[str, float]]
    revision: HeuristicRevision | None
    feedback: list[HeuristicFeedback] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassedOver:
    """A lesson that was considered and not chosen."""

    id: UUID
    text: str
    score: float


@admin.register(Retrieval)
class RetrievalAdmin(ReadOnlyAdmin[Retrieval]):
    change_form_template = "admin/memory/retrieval/replay.html"
    change_list_template = "admin/memory/retrieval/change_list.html"
    list_display = ["task_line", "mode", "lessons", "tokens", "degraded", "agent", "project", "created_at"]
    list_filter = ["mode", "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["task", "request_id"]
    date_hierarchy = "created_at"
    show_full_result_count = False
    nothing_yet = "No agent has asked for lessons yet. They do with POST /api/v1/retrieve."

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Answers", **(extra_context or {})})

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
        with_id = request.GET.get("with", "")
        form = AgainForm.for_answer(retrieval, request.GET if "mode" in request.GET else None)
        shown: dict[str, Any] = {}
        if with_id:
            other = _find(rows.filter(project=retrieval.project_id), with_id)
            shown = compare_with(retrieval, other) if other else {"missing": True}
        elif form.is_bound and form.is_valid() and retrieval.task:
            shown = compare_again(request, retrieval, form.cleaned_data)
        context = {"title": "Compare an answer", "opts": self.opts, "retrieval": retrieval, "form": form, **shown}
        nearby = rows.filter(project=retrieval.project_id, task_id=retrieval.task_id).exclude(pk=retrieval.pk)
        context["nearby"] = nearby.order_by("-created_at")[:_NEARBY]
        page = {**self.admin_site.each_context(request), **context}
        return TemplateResponse(request, "admin/memory/retrieval/again.html", page)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show an answer again, from the question to the runs that followed. A fixed number of queries."""
        runs = Prefetch("trajectories", Trajectory.objects.defer("steps").order_by("created_at"), to_attr="runs")
        said = Prefetch("verdicts", HeuristicFeedback.objects.order_by("created_at"), to_attr="said")
        found = self.get_queryset(request).select_related("project").prefetch_related(runs, said)
        retrieval = _find(found, object_id)  # where there is none, the parent view says so
        context = _replay(retrieval) if retrieval is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

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
        names = _name_heuristics(row.heuristic_id for row in counted.by_heuristic if row.heuristic_id)
        context = {
            **self.admin_site.each_context(request),
            "title": "Outcomes of answers",
            "opts": self.opts,
            "days": days,
            "periods": PERIODS_DAYS,
            "baseline": baseline,
            "by_mode": [(row, _percent(row)) for row in counted.by_mode],
            "by_family": [(row, _percent(row)) for row in counted.by_family],
            "by_heuristic": [
                (row, names.get(row.heuristic_id, ""), _percent(row))
                for row in counted.by_heuristic
                if row.heuristic_id
            ],
        }
        return TemplateResponse(request, "admin/memory/retrieval/outcomes.html", context)


def _find(rows: QuerySet[Retrieval], pk: str) -> Retrieval | None:
    try:
        return rows.filter(pk=pk).first()
    except (ValueError, ValidationError):  # no id at all
        return None


def _replay(retrieval: Retrieval) -> dict[str, Any]:
    wordings = find_wordings(retrieval)
    by_heuristic = {str(one.heuristic_id): one for one in wordings}
    said: dict[str, list[HeuristicFeedback]] = {}
    for feedback in retrieval.said:  # type: ignore[attr-defined]  # prefetched
        said.setdefault(str(feedback.heuristic_id), []).append(feedback)
    lessons = [
        AnswerItem(
            place=place,
            id=item["heuristic"],
            label=get_label(item["heuristic"]),
            injected=item["injected"],
            reason=item["reason"],
            subtask=item["subtask"],
            matched_task=item["matched_task"],
            scores=[(_SCORE_NAMES.get(name, name), value) for name, value in item["scores"].items()],
            revision=by_heuristic.get(item["heuristic"]),
            feedback=said.get(item["heuristic"], []),
        )
        for place, item in enumerate(describe_items(retrieval, wordings), 1)
    ]
    names = _name_heuristics(retrieval.considered_ids)
    return {
        "retrieval": retrieval,
        "options": [(name.replace("_", " "), _say_option(value)) for name, value in retrieval.options.items()],
        "lessons": lessons,
        "injected_count": sum(lesson.injected for lesson in lessons),
        "replayed": replay_block(retrieval, wordings),
        "order": find_order_over(retrieval),
        "passed_over": [
            PassedOver(id=heuristic, text=names.get(heuristic, ""), score=score)
            for heuristic, score in zip(retrieval.considered_ids, retrieval.considered_scores, strict=True)
        ],
    }


def _say_option(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "left out" if value is False else str(value)


def _name_heuristics(ids: Iterable[UUID]) -> dict[UUID, str]:
    found = Heuristic.objects.filter(pk__in=list(ids)).select_related("current_revision")
    return {heuristic.pk: str(heuristic) for heuristic in found}


def _percent(row: OutcomeCount) -> str:
    return str(Share(successes=row.successes, known=row.successes + row.failures))
