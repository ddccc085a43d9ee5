"""Requests to change who decides, where two people are required. Another reviewer decides on them in the inbox."""

from django.contrib import admin

from desk.shell.columns import who
from desk.shell.read_only import InboxRows
from memory.projects.models import RuleChange
from memory.redaction.visible_text import show_text

REQUESTED = "Nothing has changed yet: two reviewers are required here, so another one has to confirm this in the inbox."


@admin.register(RuleChange)
class RuleChangeAdmin(InboxRows[RuleChange]):
    inbox_kind = "rule"
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
    list_filter = ["status", "kind", "project"]
    list_select_related = ["project"]
    search_fields = ["requested_by", "decided_by"]

    @admin.display(description="change")
    def what(self, change: RuleChange) -> str:
        return show_text(str(change))
