"""Carry out the calls of tools, each by the protocol of its kind.

- pure: carried out, then written down; after a crash it is carried out again.
- local: carried out and written down in one transaction, so exactly once.
- idempotent: begun, carried out under the effect's id, written down; after a crash again, under the same id.
- unsafe: begun, carried out, written down; after a crash it is unknown, and only a person can say how it ended.
"""

from django.db import transaction
from django.utils import timezone

from agents.errors import ToolError
from agents.loop.fence import Claimed
from agents.loop.journal import ask_people, end_effect
from agents.models.effects import Effect
from agents.tools.catalogue import Tool, find_tool
from memory.failpoints import failpoint
from memory.tracing import span

_Status = Effect.Status
GONE = "The tool is no longer there."


def execute_effect(claimed: Claimed, effect_id: object) -> None:
    """Carry out one call and write down how it ended.

    Raises:
        LostClaim: another worker goes on with the run; nothing was written.
    """
    effect = _get(effect_id)
    tool = find_tool(effect.run, effect.tool, parent=effect.parent)
    if effect.kind == Effect.Kind.LOCAL:
        _execute_local(claimed, effect_id)
        return
    if effect.kind != Effect.Kind.PURE and not _start(claimed, effect_id):
        return
    failpoint("agent.effect_started")
    status, text = _execute(tool, effect)
    failpoint("agent.effect_done")
    with claimed.writing():
        effect = _get(effect_id)
        if effect.status in (_Status.PLANNED, _Status.STARTED):
            effect.started_at = effect.started_at or timezone.now()
            effect.fence = claimed.fence
            _end(effect, status, text)


def mark_unknown(claimed: Claimed, effect_id: object) -> None:
    """Write down that it is not known whether a call happened, and ask people."""
    with claimed.writing():
        effect = _get(effect_id)
        if effect.status == _Status.STARTED:
            Effect.objects.filter(pk=effect.pk).update(status=_Status.UNKNOWN)
            effect.status = _Status.UNKNOWN
            ask_people(effect, about_unknown=True)


def _execute_local(claimed: Claimed, effect_id: object) -> None:
    with claimed.writing():
        effect = _get(effect_id)
        if effect.status != _Status.PLANNED:
            return
        effect.started_at, effect.fence = timezone.now(), claimed.fence
        Effect.objects.filter(pk=effect.pk).update(
            status=_Status.STARTED, started_at=effect.started_at, fence=effect.fence
        )
        tool = find_tool(effect.run, effect.tool, parent=effect.parent)
        try:
            with transaction.atomic():
                text = tool.execute(effect) if tool else GONE
        except ToolError as error:
            _end(effect, _Status.FAILED, str(error))
        else:
            _end(effect, _Status.SUCCEEDED if tool else _Status.FAILED, text)
        failpoint("agent.local_before_commit")


def _start(claimed: Claimed, effect_id: object) -> bool:
    """Write down that a call begins; False where that is no longer wanted."""
    with claimed.writing() as run:
        if run.cancel_requested_at is not None:
            return False
        effect = _get(effect_id)
        if effect.status == _Status.STARTED:  # by a worker that is gone; the id makes the two calls one
            return effect.kind == Effect.Kind.IDEMPOTENT
        changed = Effect.objects.filter(pk=effect_id, status=_Status.PLANNED).update(
            status=_Status.STARTED, started_at=timezone.now(), fence=claimed.fence
        )
    return bool(changed)


def _execute(tool: Tool | None, effect: Effect) -> tuple[str, str]:
    """Carry out a call with no transaction open; return how it ended and what there is to read."""
    if tool is None:
        return _Status.FAILED, GONE
    try:
        with span("execute_tool", **{"gen_ai.tool.name": effect.tool, "erl.effect_id": str(effect.pk)}):
            return _Status.SUCCEEDED, tool.execute(effect)
    except ToolError as error:
        return _Status.FAILED, str(error)


def _end(effect: Effect, status: str, text: str) -> None:
    if status == _Status.SUCCEEDED:
        end_effect(effect, status=status, result=text)
    else:
        end_effect(effect, status=status, error=text or "It failed.")


def _get(effect_id: object) -> Effect:
    related = ("parent", "step", "run__revision", "run__agent", "run__project", "run__conversation")
    return Effect.objects.select_related(*related).get(pk=effect_id)
