"""What a run does next: a function of its rows. It reads no clock and changes nothing, and measures the next prompt
only if the model is asked next.
"""

from dataclasses import dataclass
from typing import TypeAlias

from runtime.context.planning import Fit, measure
from runtime.endings import (
    NOTES,
    Ending,
    Failure,
    find_failure,
    find_overtime,
    find_spent,
    find_stuck,
    is_unfinished,
    without_tool,
)
from runtime.loop.rows import RunRows
from runtime.models.effects import Effect
from runtime.models.runs import RunStatus, Step, StopReason
from runtime.rules import ends_run, find_missing, goes_on


@dataclass(frozen=True, slots=True)
class Prepare:
    """Fix what the run is made of: lessons, the head of the prompt, tools."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model: `again` if a worker began to and did not finish, with more room after an answer that was cut."""

    again: bool = False
    more_room: bool = False


@dataclass(frozen=True, slots=True)
class ExecuteEffect:
    """Carry out a call."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class MarkUnknown:
    """A call that must not be repeated was begun, and its worker is gone: only a person can say how it ended."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a person decides about a call."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Compact:
    """Shorten what the model reads of the conversation."""


@dataclass(frozen=True, slots=True)
class Remind:
    """Tell the agent what it has to do before it finishes."""

    tool: str


@dataclass(frozen=True, slots=True)
class Note:
    """Tell the agent why it is asked again."""

    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run."""

    status: RunStatus
    reason: StopReason
    error: str = ""


Action: TypeAlias = Prepare | AskModel | ExecuteEffect | MarkUnknown | Wait | Compact | Remind | Note | Finish


def next_action(rows: RunRows) -> Action | None:
    """Return what to do next; None where the run has ended."""
    run = rows.run
    if not run.is_live:
        return None
    if run.cancel_requested_at is not None:
        return Finish(RunStatus.CANCELLED, StopReason.CANCELLED)
    if run.prepared_at is None:
        return Prepare()
    if rows.open_effects:
        return _go_on(rows, rows.open_effects[0])
    if rows.step is not None and rows.step.status == Step.Status.ASKING:
        return AskModel(again=True)
    return _end(rows) or _spent(rows) or _ask(rows)


def _go_on(rows: RunRows, effect: Effect) -> Action:
    """Decide about a call that has not ended."""
    if effect.status in (Effect.Status.WAITING, Effect.Status.UNKNOWN):
        return Wait(effect)
    if effect.status == Effect.Status.STARTED and effect.kind == Effect.Kind.UNSAFE:
        return MarkUnknown(effect)
    # A call that has begun is carried to its end, even after the time is up.
    if effect.status == Effect.Status.PLANNED and (spent := find_overtime(rows.run, seconds=_seconds(rows))):
        return _failed(spent)
    return ExecuteEffect(effect)


def _end(rows: RunRows) -> Action | None:
    """Decide whether the answer ends the run."""
    if rows.step is None:
        return None
    failure = find_failure(rows.endings, calls=rows.answer is not None and bool(rows.answer.tool_calls))
    if failure is not None:
        return _failed(failure)
    if rows.answer is None:  # the prompt was too long for the model
        return None
    if rows.answer.tool_calls:
        if stuck := find_stuck(unreadable=rows.unreadable, repeats=rows.repeats):
            return _failed(stuck)
        done = [call.tool for call in rows.history if call.step == rows.step.seq]
        return Finish(RunStatus.SUCCEEDED, StopReason.TOOL_RULE) if ends_run(rows.rules, done) else None
    # The model has its note already, and has not been asked since.
    if rows.noted_at > rows.answer.seq:
        return None
    if is_unfinished(rows.step.finish_reason):
        note = NOTES.get(Ending(rows.step.finish_reason))
        return Note(note) if note else None
    last = rows.history[-1] if rows.history else None
    if last is not None and last.step == rows.step.seq - 1 and goes_on(rows.rules, last.tool):
        return None
    missing = find_missing(rows.rules, rows.history)
    if not missing:
        return Finish(RunStatus.SUCCEEDED, StopReason.END_TURN)
    if rows.is_reminded:
        return _failed(without_tool(missing[0]))
    return Remind(missing[0])


def _spent(rows: RunRows) -> Action | None:
    run = rows.run
    spent = find_spent(run, steps=run.steps_taken, tokens=run.tokens, cost_usd=run.cost_usd, seconds=_seconds(rows))
    return _failed(spent) if spent else None


def _seconds(rows: RunRows) -> float:
    """Return how long a run has taken, without the time that it waited for people."""
    run = rows.run
    return (rows.now - run.started_at).total_seconds() - run.waited_seconds if run.started_at else 0


def _ask(rows: RunRows) -> Action:
    match measure(rows.shown) if rows.shown else Fit.FITS:
        case Fit.TOO_LONG:
            return Compact()
        case Fit.HEAD_TOO_LONG:
            message = "The instructions, memory, lessons and tools alone do not fit into the context window. Make them "
            return _failed(Failure(StopReason.CONTEXT_OVERFLOW, f"{message}shorter, or the window larger."))
        case Fit.NEWEST_TOO_LONG:
            message = (
                "The newest messages do not fit into the context window, and they cannot be left out. Send less at "
            )
            return _failed(Failure(StopReason.CONTEXT_OVERFLOW, f"{message}once, or make the window larger."))
    return AskModel(more_room=rows.endings[:1] == (Ending.CUT,))


def _failed(failure: Failure) -> Finish:
    return Finish(RunStatus.FAILED, failure.reason, failure.error)
