"""Revisions of tools in the inbox: what agents could call from then on."""

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.text import Truncator

from desk.agents.revision_text import compare_tools, write_call, write_examples
from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, find_undo
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.review.models import Review
from runtime.definitions.storage import approve_tool, reject_tool, undo_tool_review
from runtime.models.effects import Effect
from runtime.models.tools import ToolRevision, ToolStatus

SHOWN_CALLS = 10


class ToolItems(ItemKind):
    """A proposed revision, the oldest first. An approved one can be put in force again."""

    name = "tool"
    noun = "tool revision"
    label = "Tools"
    model = ToolRevision
    related = ("tool__current", "project")
    permission = "agents.view_tool"
    decides = "agents.review_tool"
    right = "put tools of agents in force"
    reviews = (Review.Kind.TOOL,)

    def waiting(self) -> QuerySet[ToolRevision]:
        return ToolRevision.objects.waiting()

    def write_row(self, item: ToolRevision) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=f"{item.tool.name}, revision {item.number}",
            then=Truncator(item.description).chars(200),
            why=str(item.get_runtime_display()),
            since=item.created_at,
        )

    def draw_item(self, item: ToolRevision, *, user: Any) -> Pane:
        tool = item.tool
        may_decide = self.may_decide(user, item)
        no = "" if may_decide else "You may only read this revision."
        decided = "" if item.status == ToolStatus.PROPOSED else "This revision is not waiting for a decision."
        in_force = "This revision is in force." if item.pk == tool.current_id else ""
        over = "" if item.status in (ToolStatus.PROPOSED, ToolStatus.APPROVED) else decided
        calls = Effect.objects.filter(project=item.project_id, tool=tool.name).select_related("run__agent")
        return Pane(
            kind=self,
            id=item.pk,
            sha256=item.content_sha256,
            heading=f"Revision {item.number} of {tool.name}",
            template="admin/agents/tool/words.html",
            context={
                "tool": tool,
                "revision": item,
                "written": write_call(item),
                "parts": compare_tools(tool.current, item),
                "examples": write_examples(item),
            },
            page=reverse("admin:agents_tool_change", args=[tool.pk]),
            actions=[
                Button(key="a", decision="approve", label="Put in force", tone="good", disabled=no or in_force or over),
                Button(key="r", decision="reject", label="Reject", tone="bad", disabled=no or decided),
            ],
            tabs=[
                Tab(
                    name="evidence",
                    label="Latest calls",
                    template="admin/agents/tool/calls.html",
                    context={"calls": list(calls.order_by("-created_at")[:SHOWN_CALLS])},
                )
            ],
            hidden={"sha256": item.content_sha256},
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: ToolRevision, *, user: Any, data: Any) -> Done:
        by, sha256 = Actor.person(user), data.get("sha256", "")
        match data.get("decision"):
            case "approve":
                approve_tool(item, by=by, sha256=sha256)
                message = f"Revision {item.number} is in force. New revisions of agents get it."
            case "reject":
                reject_tool(item, by=by, sha256=sha256)
                message = f"Revision {item.number} is rejected."
            case _:
                raise MemoryAppError("Choose one of the buttons.")
        return Done(said=message, undo=find_undo(item.tool, user))

    def undo_review(self, review: Review, *, by: Actor) -> object:
        return undo_tool_review(review, by=by)


TOOLS = ToolItems()
