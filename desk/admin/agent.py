"""The list of agents, and the page of each: what it is, what it was, its runs, and a box to talk to it."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from desk.agents.lineage import draw_lineage
from desk.agents.revision_text import compare, describe_limit, number_tools, write_rule
from desk.agents.talking import check_talking, may_talk, read_message
from desk.inbox.calls import CALLS
from desk.inbox.changes import CHANGES
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor
from memory.blocks.models import Block
from memory.redaction.visible_text import show_text
from runtime.models.agents import Agent, AgentRevision
from runtime.models.effects import Approval, ApprovalStatus
from runtime.models.runs import Run
from runtime.models.tools import ToolRevision
from runtime.revisions import allow_tool, ask_again
from runtime.rules import is_allowed, needs_approval, read_rules
from runtime.runs import RunRequest, start_run
from runtime.tools.catalogue import core_tools

SHOWN_REVISIONS = 20
SHOWN_RUNS = 15


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin[Agent]):
    change_form_template = "admin/agents/agent/page.html"
    list_display = ["name", "description", "revision", "runs_shown", "waiting_shown", "project", "created_at"]
    list_filter = ["project", "created_at"]
    list_select_related = ["current", "project"]
    search_fields = ["name", "description"]
    nothing_yet = "No agent runs here yet. Agents are defined in files, or with POST /api/v1/agents."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        # The two joins multiply the rows, so each run is counted once.
        runs = Count("runs", distinct=True)
        waiting = Count("runs", filter=Q(runs__status=Run.Status.WAITING), distinct=True)
        return super().get_queryset(request).annotate(run_count=runs, waiting_count=waiting)

    @admin.display(description="revision")
    def revision(self, agent: Agent) -> str:
        archived = " · archived" if agent.archived_at else ""
        return f"{agent.current.number if agent.current else '–'}{archived}"

    @admin.display(description="runs", ordering="run_count")
    def runs_shown(self, agent: Any) -> int:
        return int(agent.run_count)

    @admin.display(description="waiting", ordering="waiting_count")
    def waiting_shown(self, agent: Any) -> int:
        return int(agent.waiting_count)

    def row_context(self, request: HttpRequest, row: Agent) -> dict[str, Any]:
        """Collect what the page shows, in a fixed number of queries."""
        current = row.current
        assert current is not None  # an agent is made with a revision
        revisions = list(row.revisions.order_by("-number")[: SHOWN_REVISIONS + 1])
        numbers = number_tools([current, *revisions])
        blocks = Block.objects.select_related("current").in_bulk([block["block"] for block in current.blocks])
        by_id = {str(id): block for id, block in blocks.items()}
        # Each beside the one before it: one more is read than is shown.
        pairs = zip(revisions, [*revisions[1:], None], strict=True)
        waiting = Approval.objects.filter(run__agent=row, status=ApprovalStatus.PENDING).select_related("effect")
        return {
            "agent": row,
            "current": current,
            "model": current.model or "the server's own",
            "window": f"{current.window_tokens:,}",
            "blocks": [(block["label"], by_id.get(block["block"])) for block in current.blocks],
            "tools": describe_tools(current),
            "rules": [write_rule(rule) for rule in current.rules],
            "limits": [describe_limit(name, value) for name, value in current.limits.items() if value is not None],
            "revisions": [(newer, older, compare(older, newer, numbers)) for newer, older in pairs][:SHOWN_REVISIONS],
            "runs": list(row.runs.order_by("-created_at", "-id")[:SHOWN_RUNS]),
            "lineage": draw_lineage(row),
            "changes": list(row.changes.select_related("release", "target").order_by("-number")[:SHOWN_REVISIONS]),
            "waiting": list(waiting.order_by("requested_at")[:SHOWN_RUNS]),
            "may_talk": may_talk(request.user, row.project_id),
            "may_allow": CALLS.may_decide(request.user, row),
            "may_decide": CHANGES.may_decide(request.user, row),
        }

    def press(self, request: HttpRequest, row: Agent) -> str | HttpResponse:
        """Send a message, or change whether people are asked about a tool."""
        by = get_actor(request)
        if "tool" not in request.POST:
            check_talking(request.user, row.project_id)
            run = start_run(row, RunRequest(input=read_message(request.POST)), by=by)
            return HttpResponseRedirect(reverse("admin:agents_run_change", args=[run.pk]))
        if not CALLS.may_decide(request.user, row):
            raise PermissionDenied(CALLS.not_allowed)
        name = request.POST["tool"][:200]
        if request.POST.get("do") == "ask":
            ask_again(row, name, by=by)
            return f"From its next run on, calls of {show_text(name)} need an approval again."
        allow_tool(row, name, by=by, sha256=request.POST.get("sha256", ""))
        return f"From its next run on, calls of {show_text(name)} need no approval."


def describe_tools(current: AgentRevision) -> list[dict[str, Any]]:
    """Return the tools of an agent in their order; `revision` is None for one of ERL. One query."""
    rows = ToolRevision.objects.in_bulk([tool["revision"] for tool in current.tools if "revision" in tool])
    revisions, rules = {str(pk): revision for pk, revision in rows.items()}, read_rules(current.rules)
    shown = []
    for tool in current.tools:
        name, id = tool["name"], tool.get("revision", "")
        revision = revisions.get(id)
        is_there = revision is not None or name in core_tools()
        by_itself = revision is not None and revision.requires_approval
        shown.append(
            {
                "name": name,
                "revision": revision,
                "is_allowed": is_there and is_allowed(rules, tool=name, revision=id),
                # A person has to approve some of its calls.
                "asks": is_there and needs_approval(rules, tool=name, arguments=None, revision=id, by_itself=by_itself),
            }
        )
    return shown
