"""The list of changes, and the page of each: the ladder with its evidence, and the next step."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from desk.agents.changes import change_context, take_step
from desk.agents.lineage import may_decide
from desk.shell.read_only import ReadOnlyAdmin
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.redaction.visible_text import show_text
from runtime.models.changes import Change
from runtime.sandbox.calls import SandboxError


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin[Change]):
    change_form_template = "admin/agents/change/page.html"
    list_display = ["named", "why", "kinds_shown", "rung", "source", "agent", "project", "created_at"]
    list_filter = ["rung", "source", "agent__name", "project", "created_at"]
    list_select_related = ["agent", "project"]
    search_fields = ["reason", "agent__name"]
    show_full_result_count = False
    nothing_yet = "No change of an agent has been proposed yet. Evolutions propose them, and so do people by API."

    @admin.display(description="change", ordering="number")
    def named(self, change: Change) -> str:
        return f"{change.agent.name} {change.number}"

    @admin.display(description="why")
    def why(self, change: Change) -> str:
        return show_text(change.reason[:120])

    @admin.display(description="changes")
    def kinds_shown(self, change: Change) -> str:
        return ", ".join(change.kinds)

    def has_decide_permission(self, request: HttpRequest, change: Change) -> bool:
        return may_decide(request.user, change.project_id)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        change = self.get_object(request, object_id)
        if change is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        decides = self.has_decide_permission(request, change)
        if request.method == "POST":
            if not decides:
                raise PermissionDenied("You need the permission “decide about changes of agents” and the role of a "
                                       "reviewer in this project.")  # fmt: skip
            try:
                by = Actor.person(request.user)  # type: ignore[arg-type]
                said = take_step(change, request.POST.get("do", ""), data=request.POST, by=by)
            except (MemoryAppError, SandboxError) as refusal:
                messages.error(request, str(refusal))
            else:
                messages.success(request, said)
            return HttpResponseRedirect(request.path)
        context = change_context(change) | {"may_decide": decides}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})
