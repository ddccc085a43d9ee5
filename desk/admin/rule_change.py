"""Requests to change who decides, where two people are required: another reviewer confirms or refuses them here."""

from collections.abc import Callable

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from desk.shell.columns import column, who
from desk.shell.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.projects.models import RuleChange
from memory.projects.rule_changes import confirm_change, refuse_change
from memory.redaction.visible_text import show_text

REQUESTED = (
    "Nothing has changed yet: two reviewers are required here, so another one has to confirm this under Rule changes."
)


@admin.register(RuleChange)
class RuleChangeAdmin(ReadOnlyAdmin[RuleChange]):
    nothing_yet = (
        "No such change has been requested. Where two reviewers are required, a second one has to agree before it "
        "changes who decides."
    )
    list_display = [
        "what",
        "project",
        "status",
        who("requested_by", "requested by"),
        "requested_at",
        who("decided_by", "decided by"),
        "decided_at",
    ]
    facts = [*list_display, column("applied_at", "in force since")]
    list_filter = ["status", "kind", "project"]
    list_select_related = ["project"]
    search_fields = ["requested_by", "decided_by"]
    actions = ["confirm_selected", "refuse_selected"]

    @admin.display(description="change")
    def what(self, change: RuleChange) -> str:
        return show_text(str(change))

    @admin.action(description="Confirm the selected changes", permissions=["review"])
    def confirm_selected(self, request: HttpRequest, queryset: QuerySet[RuleChange]) -> None:
        self._decide(request, queryset, confirm_change, "Confirmed, and in force now: {}.")

    @admin.action(description="Refuse the selected changes", permissions=["review"])
    def refuse_selected(self, request: HttpRequest, queryset: QuerySet[RuleChange]) -> None:
        self._decide(request, queryset, refuse_change, "Refused: {}.")

    def has_review_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.review_heuristic")

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[RuleChange], decide: Callable[..., RuleChange], said: str
    ) -> None:
        assert request.user.is_authenticated
        for change in queryset:
            name = show_text(str(change))
            try:
                decide(change, by=Actor.person(request.user))
            except MemoryAppError as refusal:
                messages.error(request, f"{name}: {refusal}")
            else:
                messages.success(request, said.format(name))
