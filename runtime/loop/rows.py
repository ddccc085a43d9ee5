"""What the loop looks at before each action: the rows of one run, and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Any
from uuid import UUID

from django.db.models import Q, TextField, Value
from django.db.models.functions import MD5, Coalesce, Now, NullIf

from runtime.context.planning import Shown
from runtime.endings import LOOKED_AT, MOST_UNREADABLE, TOLD_AT, count_repeats
from runtime.models.conversations import Message
from runtime.models.effects import Effect
from runtime.models.runs import Run, Step
from runtime.rules import Called, find_conditional, read_rules, reads_history

REMINDER = "Before you finish, call"
UNREADABLE = "The arguments are not a JSON object"  # begins the refusal of a call that nothing could read


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRows:
    """A run and what belongs to it, as of one moment.

    `open_effects` are calls that have not ended, first those of a tool in the sandbox. While there are any, they decide
    what comes next, and the rest is not read: `step` is the last one, `answer` its message, `history` what was called
    so far, `shown` what the next prompt shows.
    """

    run: Run
    open_effects: tuple[Effect, ...]
    rules: tuple[Any, ...]
    now: datetime
    shown: Shown | None = None  # None in memory, where the whole conversation is shown
    step: Step | None = None
    answer: Message | None = None
    history: tuple[Called, ...] = ()
    noted_at: int = 0  # the last note of ERL to the agent, as the number of its message; 0 where there is none
    is_reminded: bool = False  # of a tool that it has to call
    endings: tuple[str, ...] = ()  # of the answers, the newest first
    repeats: int = 0  # how often the last step was taken, with the same results
    unreadable: int = 0  # answers in a row whose calls could not be read


def load_rows(run_id: UUID) -> RunRows:
    """Read the rows of a run."""
    related = ("revision", "agent", "project", "conversation")
    run = Run.objects.select_related(*related).annotate(read_at=Now()).get(pk=run_id)
    rows = RunRows(
        run=run,
        open_effects=(),
        rules=tuple(read_rules(run.revision.rules)),
        shown=Shown(run),
        now=run.read_at,  # type: ignore[attr-defined]  # by the clock that all workers share
    )
    if not run.steps_taken:
        return rows
    # A tool in the sandbox waits for its newest call, so that one comes first. Ids are in order of time.
    open_effects = sorted(
        run.effects.filter(status__in=Effect.OPEN),
        key=lambda effect: (effect.parent_id is None, -effect.pk.int if effect.parent_id else effect.index),
    )
    if open_effects:
        return replace(rows, open_effects=tuple(open_effects))
    steps = list(run.steps.order_by("-seq")[:LOOKED_AT])
    step = steps[0] if steps else None
    if step is None or step.status != Step.Status.ANSWERED:
        return replace(rows, step=step)
    answers = Message.objects.filter(run=run, seq__gt=step.through, role=Message.Role.ASSISTANT)
    notes = list(run.messages.filter(role=Message.Role.NOTE).order_by("-seq").values_list("seq", "content"))
    taken = _read_steps(run, steps)
    return replace(
        rows,
        step=step,
        answer=answers.order_by("is_reply", "seq").first(),
        history=tuple(row for row in read_history(run) if not row.by_tool),
        noted_at=notes[0][0] if notes else 0,
        is_reminded=any(content.startswith(REMINDER) for _, content in notes),
        endings=tuple(row.finish_reason for row in steps),
        repeats=count_repeats(taken),
        unreadable=count_unreadable(taken),
    )


def _read_steps(run: Run, steps: list[Step]) -> list[str]:
    """Return what each of these steps called and what came of it."""
    # With fewer steps, neither limit can be reached.
    if len(steps) < min(TOLD_AT, MOST_UNREADABLE):
        return []
    taken: dict[int, list[str]] = {step.pk: [] for step in steps}
    calls = run.effects.filter(step_id__in=taken, parent__isnull=True).order_by("index", "id")
    # Results may be long, and all that matters is whether they are the same.
    columns = ("step_id", "tool", "arguments_sha256", "status", "error", "result_md5")
    for step, *call in calls.annotate(result_md5=MD5("result")).values_list(*columns):
        taken[step].append(write_call(*call))
    return [write_step(calls) for calls in taken.values()]


def write_call(tool: str, arguments: str, status: str, error: str, result: str) -> str:
    """Return a call and what came of it as a text, equal for equal calls; long parts may be hashed."""
    return UNREADABLE if error.startswith(UNREADABLE) else f"{tool} {arguments} {status} {error} {result}"


def write_step(calls: Iterable[str]) -> str:
    """Return what a step called as one text."""
    return " | ".join(calls)


def count_unreadable(steps: list[str]) -> int:
    """Return how many answers in a row had no call that could be read."""
    return sum(1 for _ in takewhile(lambda step: step and set(step.split(" | ")) == {UNREADABLE}, steps))


def read_history(run: Run) -> tuple[Called, ...]:
    """Return the calls of a run in their order, without those that a rule refused.

    Those of tools in the sandbox come last: they have no place among the model's own. Nothing is read unless a rule
    needs it, and a result only of the model's last call: a run may have many calls with long results, and this is read
    before each action.
    """
    rules = read_rules(run.revision.rules)
    if not reads_history(rules):
        return ()
    calls = run.effects.exclude(status__in=[Effect.Status.REFUSED, Effect.Status.SUPERSEDED])
    calls = calls.annotate(by_tool=Q(parent__isnull=False)).order_by("by_tool", "step_id", "index", "id")
    rows = list(calls.values_list("id", "tool", "step__seq", "status", "by_tool"))
    outputs = _read_last_output([(id, tool) for id, tool, *_, by_tool in rows if not by_tool], find_conditional(rules))
    return tuple(
        Called(tool=tool, step=step, output=None if status in Effect.OPEN else outputs.get(id, ""), by_tool=by_tool)
        for id, tool, step, status, by_tool in rows
    )


def _read_last_output(calls: list[tuple[UUID, str]], asked_for: list[str]) -> dict[UUID, str]:
    """Return what the last of these calls returned, by its id, if it is of a tool that is asked for."""
    if not calls or calls[-1][1] not in asked_for:
        return {}
    # A call that failed has an error instead of a result.
    returned = Coalesce(NullIf("result", Value("")), "error", output_field=TextField())
    return dict(Effect.objects.filter(pk=calls[-1][0]).values_list("id", returned))
