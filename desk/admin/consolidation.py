"""Consolidations: what each found, saved and cost. The inbox decides on what they suggest."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.utils.text import Truncator

from desk.reflections.suggestions import show_suggestion
from desk.shell.read_only import BY_MODEL_OR_RULES, InboxRows, JobFilter, ReadOnlyAdmin
from desk.shell.requests import get_actor
from memory.projects.access import has_role
from memory.projects.models import Project, ProjectMembership
from memory.redaction.visible_text import show_text
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.consolidation.requests import request_consolidation

_SHOWN = 100


def queue_consolidations(request: HttpRequest, projects: Iterable[Project], *, again: bool) -> None:
    """Queue a consolidation of what is new in each project, or of everything, and tell the person."""
    for project in projects:
        if not has_role(request.user, project.pk, ProjectMembership.Role.OPERATOR):
            messages.error(request, f"You are not an operator of the project {project}. Nothing was queued.")
            continue
        cause = ConsolidationRun.Cause.PERSON
        request_consolidation(project, cause=cause, by=get_actor(request), again=again)
        messages.success(request, f"A consolidation of {project} is queued. A worker will start it in a moment.")


class CauseFilter(JobFilter):
    title = "cause"
    parameter_name = "cause"
    member = "payload__cause"
    choices_offered = ConsolidationRun.Cause.choices


class MethodFilter(JobFilter):
    title = "method"
    parameter_name = "method"
    member = "result__method"
    choices_offered = BY_MODEL_OR_RULES


@admin.register(ConsolidationRun)
class ConsolidationRunAdmin(ReadOnlyAdmin[ConsolidationRun]):
    change_form_template = "admin/reflection/consolidation.html"
    list_display = ["day", "project", "status", "lessons", "prompt_tokens", "found", "model_tokens"]
    list_filter = ["status", CauseFilter, MethodFilter, "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["project__slug", "last_error"]
    date_hierarchy = "created_at"
    actions = ["consolidate_again"]
    nothing_yet = "No project has been consolidated yet. It happens by itself once enough new runs are in."

    @admin.display(description="when", ordering="created_at")
    def day(self, run: ConsolidationRun) -> str:
        return f"{run.created_at:%Y-%m-%d %H:%M}"

    @admin.display(description="proposed")
    def found(self, run: ConsolidationRun) -> str:
        lessons, changes = run.heuristics_proposed, run.suggestions_made
        return f"{lessons} lesson{pluralize(lessons)}, {changes} change{pluralize(changes)}"

    @admin.display(description="lessons, if accepted")
    def lessons(self, run: ConsolidationRun) -> str:
        return f"{run.items_before} → {run.items_after}"

    @admin.display(description="their tokens")
    def prompt_tokens(self, run: ConsolidationRun) -> str:
        return f"{run.tokens_before} → {run.tokens_after}"

    @admin.display(description="model tokens")
    def model_tokens(self, run: ConsolidationRun) -> str:
        return f"{run.input_tokens + run.output_tokens}{' (rules instead)' if run.fallback else ''}"

    @admin.action(description="Consolidate these projects again", permissions=["consolidate"])
    def consolidate_again(self, request: HttpRequest, queryset: QuerySet[ConsolidationRun]) -> None:
        queue_consolidations(request, {run.project for run in queryset.select_related("project")}, again=True)

    def has_consolidate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("reflection.consolidate_project")

    def row_context(self, request: HttpRequest, row: ConsolidationRun) -> dict[str, Any]:
        rows = row.suggestions.select_related("heuristic__current_revision", "other__current_revision")
        waiting = rows.filter(status=Suggestion.Status.OPEN).exclude(kind=Suggestion.Kind.NEW)
        return {
            "run": row,
            "suggestions": [
                show_suggestion(suggestion) for suggestion in rows.order_by("kind", "created_at", "id")[:_SHOWN]
            ],
            "open": waiting.count(),
            "tokens_change": row.tokens_after - row.tokens_before,
            "lessons_change": row.items_after - row.items_before,
            "calls": row.model_calls.order_by("created_at"),
        }


@admin.register(Suggestion)
class SuggestionAdmin(InboxRows[Suggestion]):
    inbox_kind = "suggestion"
    nothing_yet = (
        "Nothing has been suggested. When lessons are similar or out of date, a consolidation says what to do."
    )
    list_display = ["line", "kind", "why", "percent", "tokens_saved", "status"]
    list_filter = ["status", "kind", "method", "project", "created_at"]
    search_fields = ["reason", "heuristic__current_revision__trigger", "heuristic__current_revision__guideline"]
    date_hierarchy = "created_at"

    @admin.display(description="lesson", ordering="heuristic__current_revision__trigger")
    def line(self, suggestion: Suggestion) -> str:
        revision = suggestion.heuristic.current_revision
        return show_text(Truncator(revision.trigger if revision else "").chars(100))

    @admin.display(description="why")
    def why(self, suggestion: Suggestion) -> str:
        return show_text(Truncator(suggestion.reason).chars(90))

    @admin.display(description="similarity", ordering="similarity")
    def percent(self, suggestion: Suggestion) -> str:
        return "" if suggestion.similarity is None else f"{100 * suggestion.similarity:.0f}%"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Suggestion]:
        rows = super().get_queryset(request)
        return rows.select_related("project", "heuristic__current_revision", "other__current_revision")
