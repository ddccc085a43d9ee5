"""The list of tools, and the page of each: its revisions with source and examples. The inbox decides on them."""

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef
from django.http import HttpRequest

from desk.agents.revision_text import compare_tools, write_call, write_examples
from desk.shell.read_only import ReadOnlyAdmin, yes_filter
from memory.review.models import Review
from runtime.models.agents import Agent
from runtime.models.effects import Effect
from runtime.models.tools import Tool, ToolRevision

SHOWN_REVISIONS = 20
SHOWN_CALLS = 10
PROPOSED = Exists(ToolRevision.objects.waiting().filter(tool=OuterRef("pk")))


@admin.register(Tool)
class ToolAdmin(ReadOnlyAdmin[Tool]):
    change_form_template = "admin/agents/tool/page.html"
    list_display = ["name", "in_force", "kind", "runtime", "project", "created_at"]
    list_filter = [
        yes_filter("review", "waiting", "Revisions are waiting", lambda tools: tools.filter(PROPOSED)),
        "current__kind",
        "current__runtime",
        "project",
    ]
    list_select_related = ["current", "project"]
    search_fields = ["name", "current__description"]
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

    def row_context(self, request: HttpRequest, row: Tool) -> dict[str, Any]:
        """Collect what the page shows, in a fixed number of queries."""
        # One more than is shown, to compare the last one with.
        revisions = list(row.revisions.order_by("-number")[: SHOWN_REVISIONS + 1])
        decided = Review.objects.newest_of(revisions)
        shown = [
            {
                "revision": revision,
                "decided": decided.get(revision.pk),
                "examples": write_examples(revision),
                "written": write_call(revision),
                "parts": compare_tools(older, revision),
            }
            for revision, older in zip(revisions, [*revisions[1:], None], strict=True)
        ]
        calls = Effect.objects.filter(project=row.project_id, tool=row.name).select_related("run__agent")
        agents = Agent.objects.filter(project=row.project_id, current__tools__contains=[{"name": row.name}])
        return {
            "tool": row,
            "revisions": shown[:SHOWN_REVISIONS],
            "calls": list(calls.order_by("-created_at")[:SHOWN_CALLS]),
            "agents": list(agents.filter(archived_at__isnull=True).order_by("name")),
        }
