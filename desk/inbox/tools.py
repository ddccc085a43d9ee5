"""Proposed revisions of tools in the inbox: what agents could call from then on."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.text import Truncator

from desk.agents.revision_text import write_call
from desk.agents.tools import compare_revisions, decide, write_examples
from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from memory.errors import MemoryAppError
from memory.projects.access import narrow_to_projects
from memory.projects.actors import Actor
from memory.rows import find_row
from runtime.models.effects import Effect
from runtime.models.tools import ToolRevision, ToolStatus

NOT_ALLOWED = (
    "To decide you need the permission “put tools of agents in force” and the role of a reviewer in this project."
)
SHOWN_CALLS = 10


class ToolItems(ItemKind):
    """A proposed revision, the oldest first."""

    name = "tool"
    noun = "tool revision"
    label = "Tools"
    permission = "agents.view_tool"
    decides = "agents.review_tool"

    def waiting(self) -> QuerySet[ToolRevision]:
        return ToolRevision.objects.waiting()

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("tool").order_by("created_at", "id")
        return [self._write_row(revision) for revision in found[:limit]]

    def _write_row(self, revision: ToolRevision) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=revision.pk,
            title=f"{revision.tool.name}, revision {revision.number}",
            then=Truncator(revision.description).chars(200),
            why=str(revision.get_runtime_display()),
            since=revision.created_at,
        )

    def find(self, user: Any, id: UUID) -> ToolRevision | None:
        rows = ToolRevision.objects.select_related("tool__current", "project")
        return find_row(narrow_to_projects(rows, user).filter(pk=id))

    def draw(self, user: Any, id: UUID) -> Pane | None:
        revision = self.find(user, id)
        if revision is None:
            return None
        tool = revision.tool
        may_decide = self.may_decide(user, revision.project_id)
        no = "" if may_decide else "You may only read this revision."
        if not no and revision.status != ToolStatus.PROPOSED:
            no = "This revision is not waiting for a decision."
        calls = Effect.objects.filter(project=revision.project_id, tool=tool.name).select_related("run__agent")
        return Pane(
            kind=self,
            id=revision.pk,
            sha256=revision.content_sha256,
            heading=f"Revision {revision.number} of {tool.name}",
            template="admin/agents/tool/words.html",
            context={
                "tool": tool,
                "one": revision,
                "written": write_call(revision),
                "parts": compare_revisions(tool.current, revision),
                "examples": write_examples(revision),
            },
            page=reverse("admin:agents_tool_change", args=[tool.pk]),
            actions=[
                Button(key="a", decision="approve", label="Put in force", tone="good", disabled=no),
                Button(key="r", decision="reject", label="Reject", tone="bad", disabled=no),
            ],
            tabs=[
                Tab(
                    name="evidence",
                    label="Latest calls",
                    template="admin/agents/tool/calls.html",
                    context={"calls": list(calls.order_by("-created_at")[:SHOWN_CALLS])},
                )
            ],
            hidden={"sha256": revision.content_sha256},
            note="" if may_decide else f"You can only read this page. {NOT_ALLOWED}",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        revision = self.find(user, id)
        if revision is None:
            return None
        if not self.may_decide(user, revision.project_id):
            raise PermissionDenied(NOT_ALLOWED)
        decision = data.get("decision", "")
        if decision not in ("approve", "reject"):
            raise MemoryAppError("Choose one of the buttons.")
        said = decide(revision.tool, {"sha256": data.get("sha256", ""), "do": decision}, by=Actor.person(user))
        return Done(said=said)


TOOLS = ToolItems()
