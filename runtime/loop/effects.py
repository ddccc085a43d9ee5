"""Carry out the calls of tools, each by the protocol of its kind.

- pure: carried out, then written down; after a crash it is carried out again.
- local: carried out and written down in one transaction, so exactly once.
- idempotent: begun, carried out under the effect's id, written down; after a crash again, under the same id.
- unsafe: begun, carried out, written down; after a crash it is unknown, and only a person can say how it ended.
"""

import json
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from memory.errors import MemoryAppError
from memory.failpoints import failpoint
from memory.tracing import span
from runtime.context.head import rewrite_head
from runtime.errors import OutcomeUnknown
from runtime.loop.fence import Claimed
from runtime.loop.journal import ask_people, end_effect, plan_effect
from runtime.models.effects import Effect
from runtime.models.runs import Run
from runtime.tools.catalogue import LoopTool, find_tool
from runtime.tools.custom import CallsHost
from runtime.tools.memory_tools import BLOCK_TOOLS

_Status = Effect.Status
GONE = "The tool no longer exists."


def execute_effect(claimed: Claimed, run: Run, effect_id: UUID, *, kind: str) -> None:
    """Carry out one call of a run and write down how it ended.

    Raises:
        LostClaim: another worker goes on with the run; nothing was written.
    """
    if kind == Effect.Kind.LOCAL:
        _execute_local(claimed, effect_id)
        return
    effect = _get(effect_id, run)
    tool = find_tool(effect.run, effect.tool, parent=effect.parent)
    # A pure call leaves no mark: after a crash it is simply made again.
    if effect.kind != Effect.Kind.PURE and not _start(claimed, effect_id):
        return
    failpoint("agent.effect_started")
    # A process that was suspended until here may have a successor, and then must call nothing.
    claimed.heartbeat.ensure_held()
    try:
        status, value = _execute(tool, effect)
    except CallsHost as call:
        _plan_host_call(claimed, effect_id, call)
        return
    except OutcomeUnknown:
        mark_unknown(claimed, effect_id)
        return
    failpoint("agent.effect_done")
    with claimed.writing() as run:
        effect = _get(effect_id, run)
        if effect.status in (_Status.PLANNED, _Status.STARTED):
            effect.started_at = effect.started_at or timezone.now()
            effect.fence = claimed.fence
            _end(effect, status, value)


def mark_unknown(claimed: Claimed, effect_id: UUID) -> None:
    """Write down that it is not known whether a call happened, and ask people."""
    with claimed.writing() as run:
        effect = _get(effect_id, run)
        if effect.status == _Status.STARTED:
            Effect.objects.filter(pk=effect.pk).update(status=_Status.UNKNOWN)
            effect.status = _Status.UNKNOWN
            ask_people(effect, about_unknown=True)


def _execute_local(claimed: Claimed, effect_id: UUID) -> None:
    with claimed.writing() as run:
        effect = _get(effect_id, run)
        # Both were read before the lock; a person may have cancelled since.
        if effect.status != _Status.PLANNED or run.cancel_requested_at is not None:
            return
        effect.started_at, effect.fence = timezone.now(), claimed.fence
        Effect.objects.filter(pk=effect.pk).update(
            status=_Status.STARTED, started_at=effect.started_at, fence=effect.fence
        )
        tool = find_tool(effect.run, effect.tool, parent=effect.parent)
        try:
            # A savepoint: a tool that fails takes back what it wrote, and the failure itself is still written down.
            with transaction.atomic():
                value = tool.execute(effect) if tool else GONE
        except MemoryAppError as error:
            _end(effect, _Status.FAILED, str(error))
        else:
            _end(effect, _Status.SUCCEEDED if tool else _Status.FAILED, value)
            # The head of the prompt shows the blocks, so it has to follow.
            if effect.tool in BLOCK_TOOLS:
                rewrite_head(run)
        failpoint("agent.local_before_commit")


def _start(claimed: Claimed, effect_id: UUID) -> bool:
    """Write down that a call begins; False where that is no longer wanted."""
    with claimed.writing() as run:
        if run.cancel_requested_at is not None:
            return False
        effect = _get(effect_id, run)
        # Begun by a worker that is gone. With the same id, the service makes the two calls one.
        if effect.status == _Status.STARTED:
            return effect.kind == Effect.Kind.IDEMPOTENT
        changed = Effect.objects.filter(pk=effect_id, status=_Status.PLANNED).update(
            status=_Status.STARTED, started_at=timezone.now(), fence=claimed.fence
        )
    return bool(changed)


def _execute(tool: LoopTool | None, effect: Effect) -> tuple[str, Any]:
    """Carry out a call with no transaction open; return how it ended and what there is to read."""
    if tool is None:
        return _Status.FAILED, GONE
    try:
        with span("execute_tool", **{"gen_ai.tool.name": effect.tool, "erl.effect_id": str(effect.pk)}):
            return _Status.SUCCEEDED, tool.execute(effect)
    except OutcomeUnknown:
        raise
    except MemoryAppError as error:
        return _Status.FAILED, str(error)


def _plan_host_call(claimed: Claimed, effect_id: UUID, call: CallsHost) -> None:
    """Write down what a tool in the sandbox asks of its host; the tool goes on when that has ended."""
    with claimed.writing() as run:
        effect = _get(effect_id, run)
        # A worker that died after planning left the call behind; it must not be planned twice.
        if effect.status == _Status.PLANNED and effect.children.filter(index=call.index).count() == 0:
            plan_effect(effect.step, index=call.index, tool=call.name, arguments=call.arguments, parent=effect)


def _end(effect: Effect, status: str, value: Any) -> None:
    """Write down how a call ended: as JSON for a tool in the sandbox, as text for the model."""
    if status != _Status.SUCCEEDED:
        end_effect(effect, status=status, error=str(value) or "It failed.")
    elif effect.parent_id is None and isinstance(value, str):
        end_effect(effect, status=status, result=value)
    else:
        end_effect(effect, status=status, result=json.dumps(value, ensure_ascii=False))


def _get(effect_id: UUID, run: Run) -> Effect:
    """Return a call of a run that was read before, as it is now."""
    effect = Effect.objects.select_related("parent__tool_revision", "tool_revision", "step").get(pk=effect_id)
    effect.run = effect.step.run = run
    if effect.parent is not None:
        effect.parent.run = run
    return effect
