"""Agent calls in the inbox: those that wait for a person before they happen, and those that may have happened."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.urls import reverse
from django.utils.text import Truncator

from desk.agents.decision_form import PREVIEW, REASONS, CallDecisionForm, write_arguments
from desk.agents.turns import read_turns
from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from memory.errors import InvalidInput
from memory.projects.access import narrow_to_projects
from memory.projects.actors import Actor
from memory.rows import find_row
from runtime.models.effects import Approval, ApprovalStatus, Effect

SHOWN_STEPS = 3
SHOWN_CALLS = 5
_FOLDER = "admin/agents/approval"
_NOT_ALLOWED = (
    "You need the permission “decide about calls of agents” and the role of a reviewer in this project to decide on "
    "this page."
)


class CallKind(ItemKind):
    """A call that waits, the oldest first: its agent cannot go on before the decision."""

    name = "call"
    noun = "call"
    label = "Agent calls"
    permission = "agents.view_approval"
    decides = "agents.decide_approval"
    since = "requested_at"
    waits_in_archived = True  # its run still does

    def waiting(self) -> QuerySet[Approval]:
        return Approval.objects.filter(status=ApprovalStatus.PENDING)

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("effect", "run__agent").order_by("requested_at", "id")
        return [self._write_row(approval) for approval in found[:limit]]

    def _write_row(self, approval: Approval) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=approval.pk,
            title=f"{approval.run.agent.name}: {approval.effect.tool}",
            then=Truncator(write_briefly(approval.effect.arguments)).chars(200),
            flags=["did it happen?"] if approval.about_unknown else [],
            since=approval.requested_at,
        )

    def draw(self, user: Any, id: UUID) -> Pane | None:
        approval = self.find(user, id)
        return self.draw_call(approval, user=user) if approval is not None else None

    def draw_call(self, approval: Approval, *, user: Any, form: CallDecisionForm | None = None) -> Pane:
        """Return a call, with what the person typed where a form came back."""
        form = form or CallDecisionForm.for_approval(approval)
        context = approval_context(approval)
        may_decide = self.may_decide(user, approval.project_id)
        return Pane(
            kind=self,
            id=approval.pk,
            sha256=approval.arguments_sha256,
            heading="Did this call happen?" if approval.about_unknown else "Agent call",
            template=f"{_FOLDER}/words.html",
            context={**context, "form": form, "may_decide": may_decide},
            page=reverse("admin:agents_approval_change", args=[approval.pk]),
            actions=_list_actions(approval, form, may_decide=may_decide, is_over=context["is_over"]),
            tabs=[
                Tab(name="evidence", label="What led to it", template=f"{_FOLDER}/evidence.html"),
                Tab(name="earlier", label="Earlier calls", template=f"{_FOLDER}/earlier.html"),
            ],
            hidden={"arguments_sha256": str(form["arguments_sha256"].value() or "")},
            reasons=REASONS,
            form=form,
            note="" if may_decide else f"You can only read this page. {_NOT_ALLOWED}",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        approval = self.find(user, id)
        return self.decide_on(approval, user=user, data=data) if approval is not None else None

    def decide_on(self, approval: Approval, *, user: Any, data: Any) -> Done | Pane:
        """Carry out what a form says about a call, as `decide` does."""
        if not self.may_decide(user, approval.project_id):
            raise PermissionDenied(_NOT_ALLOWED)
        form = CallDecisionForm(data, effect=approval.effect)
        if not form.is_valid():
            return self.draw_call(approval, user=user, form=form)
        if form.cleaned_data["decision"] == PREVIEW:
            form.show_difference()
            return self.draw_call(approval, user=user, form=form)
        try:
            return Done(said=form.carry_out(by=Actor.person(user)))
        except InvalidInput as refusal:
            form.add_refusal(refusal)
            return self.draw_call(approval, user=user, form=form)

    def find(self, user: Any, id: UUID) -> Approval | None:
        rows = Approval.objects.select_related("effect", "run__agent", "project")
        return find_row(narrow_to_projects(rows, user).filter(pk=id))


def approval_context(approval: Approval) -> dict[str, Any]:
    """Collect what is shown of a call, in a fixed number of queries."""
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
    }


def _list_actions(approval: Approval, form: CallDecisionForm, *, may_decide: bool, is_over: bool) -> list[Button]:
    no = "" if may_decide else "You may only read this call."
    if not no and approval.status != ApprovalStatus.PENDING:
        no = "This call is not waiting for a decision."
    unknown = approval.about_unknown
    over = no or ("Its run has ended, so it cannot be carried out." if is_over else "")
    editing = "You are editing. Use “Save and approve”." if form.is_editing else ""
    carry_out = "Approve" if is_over or not unknown else "Carry out again"
    reject = "It did not happen" if unknown else "Reject"
    answer = "Say what it returned" if unknown else "Answer instead"
    return [
        Button(key="a", decision="approve", label=carry_out, tone="good", disabled=over or editing),
        Button(key="e", decision=PREVIEW, label="Edit", asks="edit", stays=True, disabled=over),
        Button(key="r", decision="reject", label=reject, asks="reason", tone="bad", disabled=no),
        Button(key="w", decision="answer", label=answer, asks="answer", disabled=no),
    ]


def write_briefly(arguments: Mapping[str, Any]) -> str:
    """Write the arguments of a call in one line."""
    return " ".join(", ".join(f"{name}: {_write(value)}" for name, value in arguments.items()).split())


def _write(value: Any) -> str:
    return value if isinstance(value, str) else write_arguments(value)


CALLS = CallKind()
