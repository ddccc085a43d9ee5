"""The list of agents, and the page of each: what it is, what it was, its runs, and a box to talk to it."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from desk.agents.lineage import draw_lineage, may_decide
from desk.agents.revision_text import compare, describe_limit, number_tools, write_rule
from desk.agents.talking import may_allow, may_talk, read_message
from desk.shell.read_only import ReadOnlyAdmin
from memory.blocks.models import Block
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownTool:
    """A tool of an agent; `revision` is None for one of ERL. `asks`: a person has to approve some of its calls."""

    name: str
    revision: ToolRevision | None
    is_allowed: bool
    asks: bool


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin[Agent]):
    change_form_template = "admin/agents/agent/page.html"
    list_display = ["name", "description", "revision", "runs_shown", "waiting_shown", "project", "created_at"]
    list_filter = ["project", "created_at"]
    list_select_related = ["current", "project"]
    search_fields = ["name", "description"]
    show_full_result_count = False
    nothing_yet = "No agent runs here yet. Agents are defined in files, or with POST /api/v1/agents."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        agent = self.get_object(request, object_id)
        if agent is None or agent.current is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        talks, allows = may_talk(request.user, agent.project_id), may_allow(request.user, agent.project_id)
        if request.method == "POST" and "tool" in request.POST:
            return self._decide_about_tool(request, agent, allows=allows)
        if request.method == "POST":
            if not talks:
                raise PermissionDenied("You need the permission “send messages to agents” and the role of a reviewer "
                                       "or an operator in this project.")  # fmt: skip
            try:
                said = RunRequest(input=read_message(request.POST))
                run = start_run(agent, said, by=Actor.person(request.user))  # type: ignore[arg-type]
            except MemoryAppError as refusal:
                messages.error(request, str(refusal))
                return HttpResponseRedirect(request.path)
            return HttpResponseRedirect(reverse("admin:agents_run_change", args=[run.pk]))
        context = agent_context(agent) | {"may_talk": talks, "may_allow": allows}
        context["may_decide"] = may_decide(request.user, agent.project_id)
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def _decide_about_tool(self, request: HttpRequest, agent: Agent, *, allows: bool) -> HttpResponse:
        """Allow a tool for always, or let people be asked about it again."""
        if not allows:
            raise PermissionDenied("You need the permission “decide about calls of agents” and the role of a reviewer "
                                   "in this project to allow a tool.")  # fmt: skip
        name, by = request.POST["tool"][:200], Actor.person(request.user)  # type: ignore[arg-type]
        try:
            if request.POST.get("do") == "ask":
                ask_again(agent, name, by=by)
                messages.success(request, f"From its next run on, people are asked about {show_text(name)} again.")
            else:
                allow_tool(agent, name, by=by, sha256=request.POST.get("sha256", ""))
                messages.success(request, f"From its next run on, calls of {show_text(name)} wait for nobody.")
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        return HttpResponseRedirect(request.path)


def agent_context(agent: Agent) -> dict[str, Any]:
    """Collect what the page shows, in a fixed number of queries."""
    current = agent.current
    assert current is not None
    revisions = list(agent.revisions.order_by("-number")[: SHOWN_REVISIONS + 1])
    numbers = number_tools([current, *revisions])
    blocks = Block.objects.select_related("current").in_bulk([each["block"] for each in current.blocks])
    by_id = {str(id): block for id, block in blocks.items()}
    pairs = zip(revisions, [*revisions[1:], None], strict=True)
    return {
        "agent": agent,
        "current": current,
        "model": current.model or "the server's own",
        "window": f"{current.window_tokens:,}",
        "blocks": [(each["label"], by_id.get(each["block"])) for each in current.blocks],
        "tools": describe_tools(current),
        "rules": [write_rule(each) for each in current.rules],
        "limits": [describe_limit(name, value) for name, value in current.limits.items() if value is not None],
        "revisions": [(one, older, compare(older, one, numbers)) for one, older in pairs][:SHOWN_REVISIONS],
        "runs": list(agent.runs.order_by("-created_at", "-id")[:SHOWN_RUNS]),
        "lineage": draw_lineage(agent),
        "changes": list(agent.changes.select_related("release", "target").order_by("-number")[:SHOWN_REVISIONS]),
        "waiting": list(
            Approval.objects.filter(run__agent=agent, status=ApprovalStatus.PENDING)
            .select_related("effect")
            .order_by("requested_at")[:SHOWN_RUNS]
        ),
        "title": "Agent",
    }


def describe_tools(current: AgentRevision) -> list[ShownTool]:
    """Return the tools of an agent in their order. One query."""
    revisions = ToolRevision.objects.in_bulk([each["revision"] for each in current.tools if "revision" in each])
    by_id, rules, shown = {str(pk): revision for pk, revision in revisions.items()}, read_rules(current.rules), []
    for each in current.tools:
        name, id = each["name"], each.get("revision", "")
        revision = by_id.get(id)
        is_there = revision is not None or name in core_tools()
        by_itself = revision is not None and revision.requires_approval
        allowed = is_there and is_allowed(rules, tool=name, revision=id)
        asks = is_there and needs_approval(rules, tool=name, arguments=None, revision=id, by_itself=by_itself)
        shown.append(ShownTool(name=name, revision=revision, is_allowed=allowed, asks=asks))
    return shown
