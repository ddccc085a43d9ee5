"""What was said and done in a run, in its order, as its page and the page of a call show it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime.models.conversations import Message
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run, Step
from runtime.progress import ModelAttempt, read_attempts


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownEffect:
    """A call with what people decided about it, the newest first, and the calls that it made itself."""

    effect: Effect
    approvals: list[Approval]
    children: list["ShownEffect"]

    @property
    def pending(self) -> Approval | None:
        return next((each for each in self.approvals if each.status == Approval.Status.PENDING), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownTurn:
    """A message, or a step of the agent: what it said and which tools it called. A step under way has no message."""

    message: Message | None = None
    step: Step | None = None
    effects: tuple[ShownEffect, ...] = ()
    attempts: tuple[ModelAttempt, ...] = ()  # that had no answer


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownTurns:
    """Turns of a run. `before` is the first step that is shown, where earlier ones are not; else 0."""

    shown: list[ShownTurn]
    before: int


def read_turns(run: Run, *, limit: int, through: int | None = None) -> ShownTurns:
    """Return the turns of the last `limit` steps, up to step `through`. Six queries at most."""
    steps = run.steps.order_by("-seq")
    if through is not None:
        steps = steps.filter(seq__lte=through)
    chosen = list(steps[: limit + 1])
    is_cut = len(chosen) > limit
    chosen = chosen[:limit][::-1]
    messages = run.messages.exclude(role=Message.Role.TOOL).order_by("seq")
    if is_cut:
        messages = messages.filter(seq__gt=chosen[0].through)
    if through is not None and (after := run.steps.filter(seq__gt=through).order_by("seq").first()):
        messages = messages.filter(seq__lte=after.through)
    attempts = read_attempts(run)
    turns = list(_arrange(messages, chosen, read_effects(run, chosen), attempts))
    return ShownTurns(shown=turns, before=chosen[0].seq if is_cut else 0)


def read_effects(run: Run, steps: Iterable[Step]) -> dict[int, list[ShownEffect]]:
    """Return the calls of steps by the step's id, each with the calls that it made."""
    effects = run.effects.filter(step__in=list(steps)).order_by("index", "id")
    approvals: dict[object, list[Approval]] = {}
    for approval in run.approvals.filter(effect__in=effects).order_by("-requested_at", "-id"):
        approvals.setdefault(approval.effect_id, []).append(approval)
    shown = {each.pk: ShownEffect(effect=each, approvals=approvals.get(each.pk, []), children=[]) for each in effects}
    by_step: dict[int, list[ShownEffect]] = {}
    for each in shown.values():
        parent = shown.get(each.effect.parent_id) if each.effect.parent_id else None
        siblings = parent.children if parent else by_step.setdefault(each.effect.step_id, [])
        siblings.append(each)
    return by_step


def _arrange(
    messages: Iterable[Message],
    steps: Iterable[Step],
    effects: dict[int, list[ShownEffect]],
    attempts: dict[int, list[ModelAttempt]],
) -> Iterator[ShownTurn]:
    """Put each step where its answer is in the conversation: each answer of the model is one message of no call."""

    def turn(message: Message | None, step: Step | None) -> ShownTurn:
        if step is None:
            return ShownTurn(message=message)
        failed = tuple(attempts.get(step.seq, ()))
        return ShownTurn(message=message, step=step, effects=tuple(effects.get(step.pk, ())), attempts=failed)

    left = iter(steps)
    for message in messages:
        is_answer = message.role == Message.Role.ASSISTANT and message.effect_id is None
        yield turn(message, next(left, None) if is_answer else None)
    for step in left:
        yield turn(None, step)
