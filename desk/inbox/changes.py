"""Agent changes in the inbox: each waits for its next step."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.urls import reverse

from desk.agents.changes import change_context, take_step
from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, read_reason
from memory.errors import MemoryAppError
from memory.projects.access import narrow_to_projects
from memory.projects.actors import Actor
from memory.rows import find_row
from runtime.models.changes import Change, ChangeRung
from runtime.sandbox.calls import SandboxError

NOT_ALLOWED = (
    "You need the permission “decide about changes of agents” and the role of a reviewer in this project to decide on "
    "this page."
)
# What `a` does at each rung, and whether the change still waits afterwards.
_STEPS = {
    ChangeRung.PROPOSED: ("check", "Check it"),
    ChangeRung.CHECKED: ("shadow", "Rehearse it"),
    ChangeRung.SHADOWED: ("try", "Try it on 10%"),
}
_STAYING = ("check", "shadow")


class ChangeItems(ItemKind):
    """A change that can still climb, the oldest first."""

    name = "change"
    noun = "change"
    label = "Agent changes"
    permission = "agents.view_change"
    decides = "agents.decide_change"

    def waiting(self) -> QuerySet[Change]:
        return Change.objects.open()

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("agent").order_by("created_at", "id")
        return [self._write_row(change) for change in found[:limit]]

    def _write_row(self, change: Change) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=change.pk,
            title=f"{change.agent.name}: {', '.join(change.kinds)}",
            then=change.reason,
            why=str(change.get_rung_display()).lower(),
            since=change.created_at,
        )

    def find(self, user: Any, id: UUID) -> Change | None:
        rows = Change.objects.select_related("agent", "base", "target", "project", "parent", "release")
        return find_row(narrow_to_projects(rows, user).filter(pk=id))

    def draw(self, user: Any, id: UUID) -> Pane | None:
        change = self.find(user, id)
        return self._draw_change(change, user=user) if change is not None else None

    def _draw_change(self, change: Change, *, user: Any) -> Pane:
        decides = self.may_decide(user, change.project_id)
        no = "" if decides else "You may only read this change."
        over = no or ("" if change.can_climb else "This change is not waiting for a decision.")
        decision, label = _STEPS.get(ChangeRung(change.rung), ("try", "Try it on 10%"))
        return Pane(
            kind=self,
            id=change.pk,
            sha256=change.sha256,
            heading=f"Change {change.number} of {change.agent.name}",
            template="admin/agents/change/words.html",
            context=change_context(change) | {"may_decide": decides},
            page=reverse("admin:agents_change_change", args=[change.pk]),
            actions=[
                Button(
                    key="a",
                    decision=decision,
                    label=label,
                    tone="good",
                    stays=decision in _STAYING,
                    disabled=over,
                ),
                Button(key="e", decision="edit", label="Edit", disabled="A change is not edited; propose another one."),
                Button(key="r", decision="reject", label="Reject", asks="reason", tone="bad", disabled=over),
            ],
            tabs=[
                Tab(name="evidence", label="Checks", template="admin/agents/change/checks.html"),
                Tab(name="shadow", label="Rehearsal", template="admin/agents/change/shadow.html"),
            ],
            hidden={"sha256": change.sha256},
            reasons=REASONS,
            note="" if decides else f"You can only read this page. {NOT_ALLOWED}",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        change = self.find(user, id)
        if change is None:
            return None
        if not self.may_decide(user, change.project_id):
            raise PermissionDenied(NOT_ALLOWED)
        step = data.get("decision", "")
        reason = read_reason(data)
        if step == "reject" and not reason:
            raise MemoryAppError("Choose a reason or write one; it is kept with the decision.")
        try:
            said = take_step(change, step, data={**data.dict(), "reason": reason}, by=Actor.person(user))
        except SandboxError as error:
            raise MemoryAppError(str(error)) from error
        return Done(said=said, stays=step in _STAYING)


# In the order of the keys 1 to 5.
REASONS = [
    ("Not needed", "Not needed"),
    ("Makes the agent worse", "Makes it worse"),
    ("Allows too much", "Allows too much"),
    ("Not shown by the rehearsal", "Not shown"),
    ("Wrong", "Wrong"),
]
CHANGES = ChangeItems()
