"""Consolidations and their suggestions in the admin: what each found, saved and cost, and decisions with one click."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import pluralize
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import Truncator

from desk.inbox.suggestions import SUGGESTIONS
from desk.inbox.views import draw_own_page
from desk.reflections.suggestions import find_holders, show_suggestion
from desk.shell.read_only import BY_MODEL_OR_RULES, JobFilter, ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.projects.access import has_role, may_review
from memory.projects.actors import Actor
from memory.projects.models import Project, ProjectMembership
from memory.redaction.visible_text import show_text
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.consolidation.requests import request_consolidation

_SHOWN = 100


def _show(rows: Iterable[Suggestion], *, user: Any) -> list[dict[str, Any]]:
    rows = list(rows)
    holders = find_holders(rows, user=user)
    return [show_suggestion(row, held_by=holders.get(row.pk, "")) for row in rows]


def queue_consolidations(request: HttpRequest, projects: Iterable[Project], *, again: bool) -> None:
    """Queue a consolidation of what is new in each project, or of everything, and tell the person."""
    assert request.user.is_authenticated
    for project in projects:
        if not has_role(request.user, project.pk, ProjectMembership.Role.OPERATOR):
            messages.error(request, f"You are not an operator of the project {project}. Nothing was queued.")
            continue
        cause = ConsolidationRun.Cause.PERSON
        request_consolidation(project, cause=cause, by=Actor.person(request.user), again=again)
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
    show_full_result_count = False
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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        run = self.get_object(request, object_id)
        context: dict[str, Any] = {"title": "Consolidation"}
        if run is not None:
            rows = run.suggestions.select_related("heuristic__current_revision", "other__current_revision")
            context |= {
                "run": run,
                "suggestions": _show(rows.order_by("kind", "created_at", "id")[:_SHOWN], user=request.user),
                "open": rows.filter(status=Suggestion.Status.OPEN).exclude(kind=Suggestion.Kind.NEW).count(),
                "tokens_change": run.tokens_after - run.tokens_before,
                "lessons_change": run.items_after - run.items_before,
                "calls": run.model_calls.order_by("created_at"),
                "may_review": may_review(request.user, run.project_id),
            }
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})


@admin.register(Suggestion)
class SuggestionAdmin(ReadOnlyAdmin[Suggestion]):
    nothing_yet = (
        "Nothing has been suggested. When lessons are similar or out of date, a consolidation says what to do."
    )
    list_display = ["line", "kind", "why", "percent", "tokens_saved", "status"]
    list_filter = ["status", "kind", "method", "project", "created_at"]
    search_fields = ["reason", "heuristic__current_revision__trigger", "heuristic__current_revision__guideline"]
    date_hierarchy = "created_at"
    show_full_result_count = False

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

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.decide_view)
        return [path("<uuid:suggestion_id>/decide/", view, name="reflection_suggestion_decide"), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        suggestion = self.get_object(request, object_id)
        if suggestion is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        if request.method == "POST":
            self._decide(request, suggestion)
            return HttpResponseRedirect(request.get_full_path())
        pane = SUGGESTIONS.draw_suggestion(suggestion, user=request.user)
        return draw_own_page(request, pane, title="Suggestion", opts=self.opts)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Suggestion]:
        rows = super().get_queryset(request)
        return rows.select_related("project", "heuristic__current_revision", "other__current_revision")

    def decide_view(self, request: HttpRequest, suggestion_id: UUID) -> HttpResponse:
        """Accept or dismiss a suggestion and go back to where the person came from."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        suggestion = get_object_or_404(self.get_queryset(request), pk=suggestion_id)
        self._decide(request, suggestion)
        back = request.POST.get("next", "")
        if not url_has_allowed_host_and_scheme(
            back, allowed_hosts={request.get_host()}, require_https=request.is_secure()
        ):
            back = reverse("admin:reflection_suggestion_changelist") + "?status__exact=open"
        return HttpResponseRedirect(back)

    def _decide(self, request: HttpRequest, suggestion: Suggestion) -> None:
        try:
            done = SUGGESTIONS.decide_on(suggestion, user=request.user, data=request.POST)
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, done.said)
