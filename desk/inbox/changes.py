"""Agent changes in the inbox: each waits for its next step."""

from typing import Any

from django.db.models import QuerySet

from desk.agents.changes import change_context, take_step
from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, read_reason
from memory.projects.actors import Actor
from runtime.models.changes import Change, ChangeRung

# What `a` does at each rung.
_STEPS = {
    ChangeRung.PROPOSED: ("check", "Check it"),
    ChangeRung.FAILED: ("check", "Check it"),
    ChangeRung.CHECKED: ("shadow", "Rehearse it"),
    ChangeRung.SHADOWED: ("try", "Try it on 10%"),
    ChangeRung.CANARY: ("promote", "Promote"),
}
_STAYING = ("check", "shadow")  # after these it still waits
# In the order of the keys 1 to 5.
REASONS = [
    ("Not needed", "Not needed"),
    ("Makes the agent worse", "Makes it worse"),
    ("Allows too much", "Allows too much"),
    ("Not shown by the rehearsal", "Not shown"),
    ("Wrong", "Wrong"),
]


class ChangeItems(ItemKind):
    """A change that can still climb, the oldest first."""

    name = "change"
    noun = "change"
    label = "Agent changes"
    model = Change
    related = ("agent", "base", "target", "project", "parent", "release")
    permission = "agents.view_change"
    decides = "agents.decide_change"
    right = "decide about changes of agents"

    def waiting(self) -> QuerySet[Change]:
        return Change.objects.open()

    def write_row(self, item: Change) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=f"{item.agent.name}: {', '.join(item.kinds)}",
            then=item.reason,
            why=str(item.get_rung_display()).lower(),
            since=item.created_at,
        )

    def draw_item(self, item: Change, *, user: Any) -> Pane:
        may_decide = self.may_decide(user, item)
        no = "" if may_decide else "You may only read this change."
        over = "This change is not waiting for a decision."
        step, label = _STEPS.get(ChangeRung(item.rung), ("", "Approve"))
        is_open = item.can_climb or item.rung == ChangeRung.FAILED
        actions = [
            Button(
                key="a",
                decision=step,
                label=label,
                tone="good",
                stays=step in _STAYING,
                disabled=no or ("" if step else over),
            ),
            Button(key="e", decision="edit", label="Edit", disabled="A change cannot be edited; propose another one."),
            Button(
                key="r",
                decision="reject",
                label="Reject",
                asks="reason",
                tone="bad",
                disabled=no or ("" if is_open else over),
            ),
        ]
        if item.rung in Change.DEPLOYED:
            actions.append(
                Button(key="b", decision="rollback", label="Roll back", asks="reason", tone="bad", disabled=no)
            )
        return Pane(
            kind=self,
            id=item.pk,
            sha256=item.sha256,
            heading=f"Change {item.number} of {item.agent.name}",
            template="admin/agents/change/words.html",
            context=change_context(item) | {"may_decide": may_decide},
            actions=actions,
            tabs=[
                Tab(name="evidence", label="Checks", template="admin/agents/change/checks.html"),
                Tab(name="shadow", label="Rehearsal", template="admin/agents/change/shadow.html"),
            ],
            hidden={"sha256": item.sha256},
            reasons=REASONS,
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: Change, *, user: Any, data: Any) -> Done:
        step = data.get("decision", "")
        reason = read_reason(data, needed=step == "reject")
        message = take_step(item, step, sha256=data.get("sha256", "")[:64], reason=reason, by=Actor.person(user))
        return Done(said=message, stays=step in _STAYING)


CHANGES = ChangeItems()
