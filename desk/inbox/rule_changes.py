"""Changes of who decides in the inbox, where two people are required: another reviewer confirms or refuses them."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.urls import reverse

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane
from memory.errors import MemoryAppError
from memory.projects.access import visible_projects
from memory.projects.actors import Actor
from memory.projects.models import RuleChange
from memory.projects.rule_changes import confirm_change, may_change, refuse_change
from memory.redaction.visible_text import show_text
from memory.rows import find_row

NOT_ALLOWED = "To decide you need the permission to review and the role of a reviewer."


class RuleChangeItems(ItemKind):
    """A requested change, the oldest first. It may be about every project, so it has no discussion of its own."""

    name = "rule"
    noun = "rule change"
    label = "Rule changes"
    permission = "memory.view_rulechange"
    since = "requested_at"
    is_discussed = False

    def waiting(self) -> QuerySet[RuleChange]:
        return RuleChange.objects.waiting()

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("project").order_by("requested_at", "id")
        return [self._write_row(change) for change in found[:limit]]

    def _write_row(self, change: RuleChange) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=change.pk,
            title=str(change),
            then=str(change.project or "every project"),
            since=change.requested_at,
        )

    def visible(self, rows: QuerySet[RuleChange], user: Any) -> QuerySet[RuleChange]:
        seen = Q(project__in=visible_projects(user))
        return rows.filter(seen | Q(project=None) if may_change(user, None) else seen)

    def find(self, user: Any, id: UUID) -> RuleChange | None:
        return find_row(self.visible(RuleChange.objects.select_related("project"), user).filter(pk=id))

    def draw(self, user: Any, id: UUID) -> Pane | None:
        change = self.find(user, id)
        if change is None:
            return None
        no = "" if may_change(user, change.project) else "You may only read this change."
        if not no and change.status != RuleChange.Status.REQUESTED:
            no = "This change is not waiting for a decision."
        own = "You requested this change, so another reviewer has to confirm it."
        return Pane(
            kind=self,
            id=change.pk,
            sha256="",
            heading="Who decides",
            template="admin/memory/rulechange/words.html",
            context={"change": change},
            page=reverse("admin:memory_rulechange_change", args=[change.pk]),
            actions=[
                Button(
                    key="a",
                    decision="confirm",
                    label="Confirm",
                    tone="good",
                    disabled=no or (own if change.requested_user_id == user.pk else ""),
                ),
                Button(key="r", decision="refuse", label="Refuse", tone="bad", disabled=no),
            ],
            note="" if may_change(user, change.project) else f"You can only read this page. {NOT_ALLOWED}",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        change = self.find(user, id)
        if change is None:
            return None
        if not may_change(user, change.project):
            raise PermissionDenied(NOT_ALLOWED)
        by = Actor.person(user)
        match data.get("decision", ""):
            case "confirm":
                confirm_change(change, by=by)
                return Done(said=f"Confirmed, and in force now: {show_text(str(change))}.")
            case "refuse":
                refuse_change(change, by=by)
                return Done(said=f"Refused: {show_text(str(change))}.")
            case _:
                raise MemoryAppError("Choose one of the buttons.")


RULE_CHANGES = RuleChangeItems()
