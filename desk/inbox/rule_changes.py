"""Requests to change who decides, in the inbox: where two people are required, another reviewer confirms them."""

from typing import Any

from django.db.models import Q, QuerySet

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane
from memory.errors import MemoryAppError
from memory.projects.access import visible_projects
from memory.projects.actors import Actor
from memory.projects.models import RuleChange
from memory.projects.rule_changes import confirm_change, may_change, refuse_change
from memory.redaction.visible_text import show_text


class RuleChangeItems(ItemKind):
    """A requested change, the oldest first. It may be about every project, so it has no discussion of its own."""

    name = "rule"
    noun = "rule change"
    label = "Rule changes"
    model = RuleChange
    related = ("project",)
    order = ("requested_at", "id")
    permission = "memory.view_rulechange"
    since = "requested_at"
    is_discussed = False

    def waiting(self) -> QuerySet[RuleChange]:
        return RuleChange.objects.waiting()

    def visible(self, rows: QuerySet[RuleChange], user: Any) -> QuerySet[RuleChange]:
        seen = Q(project__in=visible_projects(user))
        return rows.filter(seen | Q(project=None) if may_change(user, None) else seen)

    def may_decide(self, user: Any, item: RuleChange) -> bool:
        return may_change(user, item.project)

    def write_row(self, item: RuleChange) -> ItemRow:
        project = str(item.project or "every project")
        return ItemRow(kind=self.name, id=item.pk, title=str(item), then=project, since=item.requested_at)

    def draw_item(self, item: RuleChange, *, user: Any) -> Pane:
        may_decide = self.may_decide(user, item)
        no = "" if may_decide else "You may only read this change."
        if not no and item.status != RuleChange.Status.REQUESTED:
            no = "This change is not waiting for a decision."
        own = ""
        if item.requested_user_id == user.pk:
            own = "You requested this change, so another reviewer has to confirm it."
        return Pane(
            kind=self,
            id=item.pk,
            sha256="",
            heading="Who decides",
            template="admin/memory/rulechange/words.html",
            context={"change": item},
            actions=[
                Button(key="a", decision="confirm", label="Confirm", tone="good", disabled=no or own),
                Button(key="r", decision="refuse", label="Refuse", tone="bad", disabled=no),
            ],
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: RuleChange, *, user: Any, data: Any) -> Done:
        match data.get("decision"):
            case "confirm":
                confirm_change(item, by=Actor.person(user))
                return Done(said=f"Confirmed, and in force now: {show_text(str(item))}.")
            case "refuse":
                refuse_change(item, by=Actor.person(user))
                return Done(said=f"Refused: {show_text(str(item))}.")
            case _:
                raise MemoryAppError("Choose one of the buttons.")


RULE_CHANGES = RuleChangeItems()
