"""The list of calls that wait for a person, and the page on which the person decides."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import Truncator

from desk.inbox.calls import CALLS, write_briefly
from desk.inbox.kinds import Done
from desk.inbox.views import draw_own_page
from desk.shell.columns import who
from desk.shell.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.redaction.visible_text import show_text
from runtime.models.effects import Approval


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin[Approval]):
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
    show_full_result_count = False

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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        approval = self.get_object(request, object_id)
        if approval is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        if request.method == "POST":
            try:
                done = CALLS.decide_on(approval, user=request.user, data=request.POST)
            except MemoryAppError as refusal:
                messages.error(request, str(refusal))
                return HttpResponseRedirect(request.path)
            if isinstance(done, Done):
                messages.success(request, done.said)
                return HttpResponseRedirect(reverse("admin:agents_run_change", args=[approval.run_id]))
            pane = done
        else:
            pane = CALLS.draw_call(approval, user=request.user)
        return draw_own_page(request, pane, title="Call of an agent", opts=self.opts)
