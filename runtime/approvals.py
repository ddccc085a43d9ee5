"""What people decide about calls: approve, edit, reject, or answer in place of the tool."""

import json
from typing import Any

from django.db import models, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from memory.database_clock import database_now
from memory.errors import InvalidInput
from memory.projects.access import check_right
from memory.projects.actors import Actor, name_actor
from memory.review.decisions import refuse_archived
from runtime.errors import ArgumentsChanged, NothingPending
from runtime.loop.fence import lock_run
from runtime.loop.journal import end_effect, plan_effect
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run, RunStatus
from runtime.revisions import DECIDE_CALLS
from runtime.runs import wake
from runtime.streaming.events import append_event

EXPIRED = Actor.policy("approval-expiry")
EXPIRED_AT_ONCE = 100


class CallDecision(models.TextChoices):
    APPROVE = "approve", "Let it happen"
    EDIT = "edit", "Let it happen with other arguments"
    REJECT = "reject", "Do not let it happen"
    ANSWER = "answer", "Answer in place of the tool"


@transaction.atomic
def decide_effect(
    effect: Effect,
    *,
    decision: str,
    arguments_sha256: str,
    by: Actor,
    reason: str = "",
    arguments: dict[str, Any] | None = None,
    answer: str = "",
) -> Effect:
    """Decide about a call that waits, and let its run go on; return the call that now stands for it.

    About a call of which it is not known whether it happened: `approve` carries it out again, `reject` says that it did
    not happen, `answer` says what it returned.

    Args:
        arguments_sha256: the hash of the arguments that were read.

    Raises:
        NothingPending: it waits for no decision, or no longer.
        ProjectArchived: nothing more is carried out in its project.
        ArgumentsChanged: it has other arguments than were read.
        InvalidInput: `edit` without arguments, or with arguments that do not fit.
        NotAllowed: see `check_right`.
    """
    # The run is locked first, as in runtime/loop/fence.py: with one order for all there is no deadlock.
    run = lock_run(effect.run_id)
    effect = Effect.objects.select_related("project", "step", "parent__tool_revision").get(pk=effect.pk)
    check_right(DECIDE_CALLS, effect.project, by=by)
    approval = effect.approvals.filter(status=Approval.Status.PENDING).first()
    if run is None or approval is None:
        raise NothingPending("This call waits for no decision. Read it again: it may have been decided or cancelled.")
    # A decision holds only for the arguments that were on the page.
    if approval.arguments_sha256 != arguments_sha256:
        raise ArgumentsChanged("The call has other arguments than those you read. Read it again and decide then.")
    # The time may be over before the task that expires approvals has seen it.
    if approval.expires_at is not None and approval.expires_at <= database_now():
        raise NothingPending("The time for a decision is over, so the call is rejected. The agent may make it again.")
    # Rejecting and answering carry nothing out, so an archived project still allows them.
    if decision in (CallDecision.APPROVE, CallDecision.EDIT):
        refuse_archived(run.project)
    effect.run = effect.step.run = run
    # After the run, the conversation says already that it is not known how the call ended.
    is_over = not run.is_live
    if is_over and decision in (CallDecision.APPROVE, CallDecision.EDIT):
        raise NothingPending("The run has ended, so the call cannot be carried out. Say how it ended.")
    match decision:
        case CallDecision.APPROVE:
            _settle(approval, Approval.Status.APPROVED, by=by, reason=reason)
            Effect.objects.filter(pk=effect.pk).update(status=Effect.Status.PLANNED)
            effect.status = Effect.Status.PLANNED
        case CallDecision.EDIT:
            effect = _edit(effect, approval, arguments, by=by, reason=reason)
        case CallDecision.REJECT:
            _settle(approval, Approval.Status.REJECTED, by=by, reason=reason)
            sentence = (
                "A person found that this call did not happen." if approval.about_unknown else "A person rejected it."
            )
            end_effect(effect, status=Effect.Status.REJECTED, error=f"{sentence} {reason}".strip(), is_answered=is_over)
        case CallDecision.ANSWER:
            _settle(approval, Approval.Status.ANSWERED, by=by, reason=reason)
            effect.started_at = effect.started_at or timezone.now()
            # A tool in the sandbox reads JSON, the model reads text.
            result = json.dumps(answer) if effect.parent_id else answer
            end_effect(effect, status=Effect.Status.SUCCEEDED, result=result, is_answered=is_over)
    if run.is_live:
        _go_on(run)
    return effect


def expire_approvals() -> int:
    """Reject what has waited too long for a decision; return how many calls."""
    overdue = Approval.objects.filter(status=Approval.Status.PENDING, expires_at__lte=Now()).select_related("effect")
    expired = 0
    for approval in overdue.order_by("expires_at")[:EXPIRED_AT_ONCE]:
        expired += _expire(approval)
    return expired


@transaction.atomic
def _expire(approval: Approval) -> int:
    run = lock_run(approval.run_id)
    # Read again under the lock: a person may have decided meanwhile.
    current = Approval.objects.filter(pk=approval.pk, status=Approval.Status.PENDING).first()
    if run is None or current is None:
        return 0
    effect = Effect.objects.select_related("step", "parent__tool_revision").get(pk=approval.effect_id)
    effect.run = run
    _settle(current, Approval.Status.EXPIRED, by=EXPIRED)
    end_effect(effect, status=Effect.Status.REJECTED, error="Nobody decided about this call in time.")
    _go_on(run)
    return 1


def _edit(effect: Effect, approval: Approval, arguments: dict[str, Any] | None, *, by: Actor, reason: str) -> Effect:
    """Put a call with other arguments in the place of one that waits. The rules hold for it as well."""
    if arguments is None:
        raise InvalidInput({"/arguments": ["Send the arguments with which the call is to happen."]})
    _settle(approval, Approval.Status.EDITED, by=by, reason=reason)
    end_effect(effect, status=Effect.Status.SUPERSEDED)
    new = plan_effect(
        effect.step,
        index=effect.index,
        tool=effect.tool,
        arguments=arguments,
        call_id=effect.call_id,
        parent=effect.parent,
        replaces=effect,
    )
    # The exception takes back what was written above: the call waits as before.
    if new.status == Effect.Status.REFUSED:
        raise InvalidInput({"/arguments": [new.error]})
    Approval.objects.create(
        project_id=new.project_id,
        run_id=new.run_id,
        effect=new,
        arguments_sha256=new.arguments_sha256,
        status=Approval.Status.APPROVED,
        reason=reason,
        decided_by=by.label,
        decided_at=timezone.now(),
    )
    return new


def _settle(approval: Approval, status: str, *, by: Actor, reason: str = "") -> None:
    name_actor(by)
    approval.status, approval.decided_by, approval.reason = status, by.label, reason
    approval.decided_at = timezone.now()
    approval.save(update_fields=["status", "decided_by", "reason", "decided_at"])
    append_event(
        approval.run_id, "approval", approval=approval.pk, effect=approval.effect_id, status=status, by=by.label
    )


def _go_on(run: Run) -> None:
    """Let a run that waited go on. It may wait again at once, for another decision."""
    if run.waiting_since is not None:
        waited = (database_now() - run.waiting_since).total_seconds()
        Run.objects.filter(pk=run.pk).update(
            status=RunStatus.RUNNING, waiting_since=None, waited_seconds=F("waited_seconds") + waited
        )
    wake(run)
