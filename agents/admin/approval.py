"""The list of calls that wait for a person, and the page on which the person decides."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import Truncator

from agents.admin.decision_form import PREVIEW, DecisionForm, write_arguments
from agents.admin.turns import read_turns
from agents.models.effects import Approval, ApprovalStatus, Effect
from memory.admin.read_only import ReadOnlyAdmin
from memory.errors import InvalidInput, MemoryAppError
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_hidden

SHOWN_STEPS = 3
SHOWN_CALLS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The place of a call among those that wait, the oldest first; `number` is 0 for one that does not."""

    number: int
    waiting: int
    following: UUID | None
    preceding: UUID | None


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin[Approval]):
    change_form_template = "admin/agents/approval/desk.html"
    list_display = ["call", "agent", "status_shown", "requested_at", "expires_at", "decided_by", "project"]
    list_filter = ["status", "about_unknown", "run__agent__name", "project"]
    list_select_related = ["effect", "run__agent", "project"]
    search_fields = ["effect__tool", "run__agent__name", "run__task"]
    show_full_result_count = False

    @admin.display(description="call")
    def call(self, approval: Approval) -> str:
        effect = approval.effect
        return show_hidden(Truncator(f"{effect.tool} {write_arguments(effect.arguments)}").chars(140))

    @admin.display(description="agent", ordering="run__agent__name")
    def agent(self, approval: Approval) -> str:
        return approval.run.agent.name

    @admin.display(description="status", ordering="status")
    def status_shown(self, approval: Approval) -> str:
        unknown = " · did it happen?" if approval.about_unknown else ""
        return f"{approval.get_status_display()}{unknown}"

    def has_decide_permission(self, request: HttpRequest, approval: Approval) -> bool:
        return request.user.has_perm("agents.decide_approval") and has_role(
            request.user, approval.project_id, ProjectMembership.Role.REVIEWER
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        approval = self.get_object(request, object_id)
        if approval is None:
            return super().change_view(request, object_id, form_url, extra_context)  # says that it is gone
        may_decide = self.has_decide_permission(request, approval)
        form = DecisionForm.for_approval(approval)
        if request.method == "POST":
            if not may_decide:
                raise PermissionDenied("You need the permission “decide about calls of agents” and the role of a "
                                       "reviewer in this project to decide on this page.")  # fmt: skip
            form = DecisionForm(request.POST, effect=approval.effect)
            if (answer := self._decide(request, approval, form)) is not None:
                return answer
        context = approval_context(approval, waiting=self._waiting(request))
        context |= {"form": form, "may_decide": may_decide}
        request.method = "GET"  # the parent view draws the page; saving is not its business
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def _decide(self, request: HttpRequest, approval: Approval, form: DecisionForm) -> HttpResponse | None:
        """Carry out a decision; None where the page has to be shown again with what is wrong."""
        if not form.is_valid():
            return None
        if form.cleaned_data["decision"] == PREVIEW:
            form.show_difference()
            return None
        following = find_place(approval, self._waiting(request)).following
        try:
            done = form.carry_out(by=Actor.person(request.user))  # type: ignore[arg-type]  # admin pages have a user
        except InvalidInput as refusal:
            form.add_refusal(refusal)
            return None
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
            return HttpResponseRedirect(request.path)
        messages.success(request, done)
        if following is not None:
            return HttpResponseRedirect(reverse("admin:agents_approval_change", args=[following]))
        return HttpResponseRedirect(reverse("admin:agents_run_change", args=[approval.run_id]))

    def _waiting(self, request: HttpRequest) -> QuerySet[Approval]:
        """Return the calls that a person may see and that wait, the oldest first."""
        return self.get_queryset(request).filter(status=ApprovalStatus.PENDING).order_by("requested_at", "id")


def approval_context(approval: Approval, *, waiting: QuerySet[Approval]) -> dict[str, Any]:
    """Collect what the page shows, in a fixed number of queries."""
    effect = Effect.objects.select_related("parent", "step", "tool_revision__tool").get(pk=approval.effect_id)
    run = type(approval.run).objects.select_related("agent", "revision").get(pk=approval.run_id)
    same = Effect.objects.filter(project=approval.project_id, tool=effect.tool).exclude(pk=effect.pk)
    counted = {row["status"]: row["count"] for row in same.values("status").annotate(count=Count("id")).order_by()}
    names = dict(Effect.Status.choices)
    return {
        "approval": approval,
        "effect": effect,
        "run": run,
        "arguments": [(name, _write(value)) for name, value in effect.arguments.items()],
        "is_waiting": approval.status == ApprovalStatus.PENDING,
        "is_over": not run.is_live,
        "turns": read_turns(run, limit=SHOWN_STEPS, through=effect.step.seq),
        "earlier": list(same.select_related("run__agent").order_by("-created_at")[:SHOWN_CALLS]),
        "counted": [(names[status], count) for status, count in sorted(counted.items())],
        "place": find_place(approval, waiting),
        "title": "Call of an agent",
    }


def find_place(approval: Approval, waiting: QuerySet[Approval]) -> Place:
    """Return where a call stands among those that wait."""
    ids = list(waiting.values_list("pk", flat=True))
    at = ids.index(approval.pk) if approval.pk in ids else -1
    after = ids[at + 1 : at + 2] if at >= 0 else ids[:1]
    before = ids[at - 1 : at] if at > 0 else []
    return Place(
        number=at + 1, waiting=len(ids), following=after[0] if after else None, preceding=before[0] if before else None
    )


def _write(value: Any) -> str:
    return value if isinstance(value, str) else write_arguments(value)
