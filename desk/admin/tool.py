"""The list of tools, and the page of each: its revisions with source and examples, to be put in force by their hash."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from desk.agents.revision_text import write_call
from desk.agents.tools import compare_revisions, decide, write_examples
from desk.shell.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.review.models import Review
from runtime.models.agents import Agent
from runtime.models.effects import Effect
from runtime.models.tools import Tool, ToolRevision

SHOWN_REVISIONS = 20
SHOWN_CALLS = 10


class ProposedFilter(admin.SimpleListFilter):
    """Offers the tools with a revision that waits for review."""

    title = "review"
    parameter_name = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Revisions are waiting")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Tool]) -> QuerySet[Tool]:
        waiting = ToolRevision.objects.waiting().filter(tool=OuterRef("pk"))
        return queryset.filter(Exists(waiting)) if self.value() == "yes" else queryset


@admin.register(Tool)
class ToolAdmin(ReadOnlyAdmin[Tool]):
    change_form_template = "admin/agents/tool/page.html"
    list_display = ["name", "in_force", "kind", "runtime", "project", "created_at"]
    list_filter = [ProposedFilter, "current__kind", "current__runtime", "project"]
    list_select_related = ["current", "project"]
    search_fields = ["name", "current__description"]
    show_full_result_count = False
    nothing_yet = "No tool has been stored yet. Agents call the tools that are in force."

    @admin.display(description="in force")
    def in_force(self, tool: Tool) -> str:
        return f"revision {tool.current.number}" if tool.current else "nothing"

    @admin.display(description="kind", ordering="current__kind")
    def kind(self, tool: Tool) -> str:
        return str(tool.current.get_kind_display()) if tool.current else ""

    @admin.display(description="runs in", ordering="current__runtime")
    def runtime(self, tool: Tool) -> str:
        return str(tool.current.get_runtime_display()) if tool.current else ""

    def has_review_permission(self, request: HttpRequest, tool: Tool) -> bool:
        return request.user.has_perm("agents.review_tool") and has_role(
            request.user, tool.project_id, ProjectMembership.Role.REVIEWER
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        tool = self.get_object(request, object_id)
        if tool is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        may_review = self.has_review_permission(request, tool)
        if request.method == "POST":
            if not may_review:
                raise PermissionDenied("You need the permission “put tools of agents in force” and the role of a "
                                       "reviewer in this project.")  # fmt: skip
            try:
                said = decide(tool, request.POST, by=Actor.person(request.user))  # type: ignore[arg-type]
            except MemoryAppError as refusal:
                messages.error(request, str(refusal))
            else:
                messages.success(request, said)
            return HttpResponseRedirect(request.path)
        context = tool_context(tool) | {"may_review": may_review}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})


def tool_context(tool: Tool) -> dict[str, Any]:
    """Collect what the page shows, in a fixed number of queries."""
    revisions = list(tool.revisions.order_by("-number")[: SHOWN_REVISIONS + 1])
    decided = Review.objects.newest_of(revisions)
    shown = [
        (one, decided.get(one.pk), write_examples(one), write_call(one), compare_revisions(older, one))
        for one, older in zip(revisions, [*revisions[1:], None], strict=True)
    ]
    calls = Effect.objects.filter(project=tool.project_id, tool=tool.name).select_related("run__agent")
    return {
        "tool": tool,
        "revisions": shown[:SHOWN_REVISIONS],
        "calls": list(calls.order_by("-created_at")[:SHOWN_CALLS]),
        "agents": list(
            Agent.objects.filter(
                project=tool.project_id, archived_at__isnull=True, current__tools__contains=[{"name": tool.name}]
            ).order_by("name")
        ),
        "title": "Tool",
    }
