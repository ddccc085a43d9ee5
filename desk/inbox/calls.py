"""Agent calls in the inbox: those that wait for a person before they happen, and those that may have happened."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, QuerySet
from django.utils.text import Truncator

from desk.agents.decision_form import PREVIEW, REASONS, CallDecisionForm, write_arguments
from desk.agents.turns import read_turns
from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from memory.errors import InvalidInput
from memory.projects.actors import Actor
from runtime.models.effects import Approval, ApprovalStatus, Effect

SHOWN_STEPS = 3
SHOWN_CALLS = 5
_FOLDER = "admin/agents/approval"


class CallKind(ItemKind):
    """A call that waits, the oldest first: its agent cannot go on before the decision."""

    name = "call"
    noun = "call"
    label = "Agent calls"
    model = Approval
    related = ("effect", "run__agent", "project")
    order = ("requested_at", "id")
    permission = "agents.view_approval"
    decides = "agents.decide_approval"
    right = "decide about calls of agents"
    since = "requested_at"
    waits_in_archived = True  # its run still does

    def waiting(self) -> QuerySet[Approval]:
        return Approval.objects.filter(status=ApprovalStatus.PENDING)

    def write_row(self, item: Approval) -> ItemRow:
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=f"{item.run.agent.name}: {item.effect.tool}",
            then=Truncator(write_briefly(item.effect.arguments)).chars(200),
            flags=["did it happen?"] if item.about_unknown else [],
            since=item.requested_at,
        )

    def draw_item(self, item: Approval, *, user: Any, form: CallDecisionForm | None = None) -> Pane:
        """Return a call, with what the person typed where a form came back."""
        form = form or CallDecisionForm.for_approval(item)
        context = approval_context(item)
        may_decide = self.may_decide(user, item)
        return Pane(
            kind=self,
            id=item.pk,
            sha256=item.arguments_sha256,
            heading="Did this call happen?" if item.about_unknown else "Agent call",
            template=f"{_FOLDER}/words.html",
            context={**context, "form": form, "may_decide": may_decide},
            actions=list_actions(item, form, may_decide=may_decide, is_over=context["is_over"]),
            tabs=[
                Tab(name="evidence", label="What led to it", template=f"{_FOLDER}/evidence.html"),
                Tab(name="earlier", label="Earlier calls", template=f"{_FOLDER}/earlier.html"),
            ],
            hidden={"arguments_sha256": str(form["arguments_sha256"].value() or "")},
            reasons=REASONS,
            form=form,
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: Approval, *, user: Any, data: Any) -> Done | Pane:
        form = CallDecisionForm(data, effect=item.effect)
        if not form.is_valid():
            return self.draw_item(item, user=user, form=form)
        if form.cleaned_data["decision"] == PREVIEW:
            form.show_difference()
            return self.draw_item(item, user=user, form=form)
        try:
            return Done(said=form.carry_out(by=Actor.person(user)))
        except InvalidInput as refusal:
            form.add_refusal(refusal)
            return self.draw_item(item, user=user, form=form)


def approval_context(approval: Approval) -> dict[str, Any]:
    """Collect what is shown of a call, in a fixed number of queries."""
    # Both are read again, with what the page shows of them.
    effect = Effect.objects.select_related("parent", "step", "tool_revision__tool").get(pk=approval.effect_id)
    run = type(approval.run).objects.select_related("agent", "revision").get(pk=approval.run_id)
    same = Effect.objects.filter(project=approval.project_id, tool=effect.tool).exclude(pk=effect.pk)
    counts = same.values_list("status").annotate(count=Count("id")).order_by("status")
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
        "counted": [(names[status], count) for status, count in counts],
    }


def list_actions(approval: Approval, form: CallDecisionForm, *, may_decide: bool, is_over: bool) -> list[Button]:
    """Return the buttons of a call. Of one that may have happened a person says whether it did."""
    no = "" if may_decide else "You may only read this call."
    if not no and approval.status != ApprovalStatus.PENDING:
        no = "This call is not waiting for a decision."
    over = no or ("Its run has ended, so it cannot be carried out." if is_over else "")
    editing = "You are editing. Use “Save and approve”." if form.is_editing else ""
    carry_out, reject, answer = "Approve", "Reject", "Answer instead"
    if approval.about_unknown:
        reject, answer = "It did not happen", "Say what it returned"
        if not is_over:
            carry_out = "Carry out again"
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
