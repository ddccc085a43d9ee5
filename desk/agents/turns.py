"""What was said and done in a run, in its order, as its page and the page of a call show it."""

from collections.abc import Iterable
from typing import Any

from runtime.models.conversations import Message
from runtime.models.effects import Approval
from runtime.models.runs import Run, Step
from runtime.progress import read_attempts


def read_turns(run: Run, *, limit: int, through: int | None = None) -> dict[str, Any]:
    """Return the turns of the last `limit` steps, up to step `through`. Six queries at most.

    A turn is a message, or a step of the agent: what it said and which tools it called. A step under way has no message
    yet. `before` is the first step that is shown, where earlier ones are not; else 0.
    """
    steps = run.steps.order_by("-seq")
    if through is not None:
        steps = steps.filter(seq__lte=through)
    newest = list(steps[: limit + 1])
    is_cut = len(newest) > limit
    chosen = newest[:limit][::-1]
    messages = run.messages.exclude(role=Message.Role.TOOL).order_by("seq")
    if is_cut:
        messages = messages.filter(seq__gt=chosen[0].through)
    # The next step has read all that was said before it.
    if through is not None and (after := run.steps.filter(seq__gt=through).order_by("seq").first()):
        messages = messages.filter(seq__lte=after.through)
    attempts, effects = read_attempts(run), _read_effects(run, chosen)

    def turn(message: Message | None, step: Step | None) -> dict[str, Any]:
        if step is None:
            return {"message": message}
        # The attempts are those that had no answer.
        return {
            "message": message,
            "step": step,
            "effects": effects.get(step.pk, []),
            "attempts": attempts.get(step.seq, ()),
        }

    # Each answer of the model is one message of no call, so it stands where its step is.
    turns, left = [], iter(chosen)
    for message in messages:
        is_answer = message.role == Message.Role.ASSISTANT and message.effect_id is None
        turns.append(turn(message, next(left, None) if is_answer else None))
    turns += [turn(None, step) for step in left]
    return {"shown": turns, "before": chosen[0].seq if is_cut else 0}


def _read_effects(run: Run, steps: Iterable[Step]) -> dict[int, list[dict[str, Any]]]:
    """Return the calls of steps by the step's id, each with what people decided about it and the calls that it made."""
    effects = run.effects.filter(step__in=list(steps)).order_by("index", "id")
    approvals: dict[object, list[Approval]] = {}
    for approval in run.approvals.filter(effect__in=effects).order_by("-requested_at", "-id"):
        approvals.setdefault(approval.effect_id, []).append(approval)
    shown: dict[Any, dict[str, Any]] = {
        effect.pk: {"effect": effect, "approvals": approvals.get(effect.pk, []), "children": []} for effect in effects
    }
    by_step: dict[int, list[dict[str, Any]]] = {}
    for call in shown.values():
        parent = shown.get(call["effect"].parent_id)
        siblings = parent["children"] if parent else by_step.setdefault(call["effect"].step_id, [])
        siblings.append(call)
    return by_step
