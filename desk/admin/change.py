"""The list of changes. The inbox has each of them, with its ladder, its evidence and the next step."""

from django.contrib import admin

from desk.shell.read_only import InboxRows
from memory.redaction.visible_text import show_text
from runtime.models.changes import Change


@admin.register(Change)
class ChangeAdmin(InboxRows[Change]):
    inbox_kind = "change"
    list_display = ["name", "why", "kinds_shown", "rung", "source", "agent", "project", "created_at"]
    list_filter = ["rung", "source", "agent__name", "project", "created_at"]
    list_select_related = ["agent", "project"]
    search_fields = ["reason", "agent__name"]
    nothing_yet = "No change of an agent has been proposed yet. Evolutions propose them, and so do people by API."

    @admin.display(description="change", ordering="number")
    def name(self, change: Change) -> str:
        return f"{change.agent.name} {change.number}"

    @admin.display(description="why")
    def why(self, change: Change) -> str:
        return show_text(change.reason[:120])

    @admin.display(description="changes")
    def kinds_shown(self, change: Change) -> str:
        return ", ".join(change.kinds)
