"""The list of calls that waited for a person. The inbox has each of them."""

from django.contrib import admin
from django.utils.text import Truncator

from desk.inbox.calls import write_briefly
from desk.shell.columns import who
from desk.shell.read_only import InboxRows
from memory.redaction.visible_text import show_text
from runtime.models.effects import Approval


@admin.register(Approval)
class ApprovalAdmin(InboxRows[Approval]):
    inbox_kind = "call"
    list_display = [
        "call",
        "agent",
        "status_shown",
        "requested_at",
        "expires_at",
        who("decided_by", "decided by"),
        "project",
    ]
    nothing_yet = "No agent has asked a person yet. Agents ask before calls that their rules name."
    list_filter = ["status", "about_unknown", "run__agent__name", "project"]
    list_select_related = ["effect", "run__agent", "project"]
    search_fields = ["effect__tool", "run__agent__name", "run__task"]

    @admin.display(description="call")
    def call(self, approval: Approval) -> str:
        effect = approval.effect
        return show_text(Truncator(f"{effect.tool}: {write_briefly(effect.arguments)}").chars(140))

    @admin.display(description="agent", ordering="run__agent__name")
    def agent(self, approval: Approval) -> str:
        return approval.run.agent.name

    @admin.display(description="status", ordering="status")
    def status_shown(self, approval: Approval) -> str:
        unknown = " · did it happen?" if approval.about_unknown else ""
        return f"{approval.get_status_display()}{unknown}"
