"""Mistakes of the sort language models make with tools. They depend on the situation, so they recur in other tasks."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluation.environments.scripted.plan import (
    PlannedCall,
    ScriptedAnswer,
    Slip,
    SlipKind,
    Work,
    World,
    WrongForms,
    WrongTools,
    replay,
)

HABIT_SHARE: Mapping[SlipKind, float] = {
    "skipped": 0.75, "form": 0.35, "invented": 0.4, "wrong tool": 0.6, "forgotten": 0.25,
}  # fmt: skip
SLIP_SHARE = 0.75  # of the tasks that meet a habit's situation
SECOND_SHARE = 0.3  # of the tasks with a slip that have another


def find_slips(open_world: Callable[[], World], work: Work) -> tuple[Work, list[Slip]]:
    """Return the work with the sources of its values, and every slip that it gives occasion for."""
    plan = work.plan
    answers = [answer for answer in replay(open_world(), plan) if answer is not None]
    work = replace(work, sources=dict(_find_sources(plan, answers, work.requests)))
    return work, [
        *_skipped(open_world, plan, answers),
        *_wrong_forms(plan, work.forms),
        *_invented(work),
        *_wrong_tools(plan, work.tools),
        *_forgotten(plan),
    ]


def choose_slips(
    slips: Sequence[Slip], *, seed: str, task: str, habits: Mapping[SlipKind, float] = HABIT_SHARE
) -> list[Slip]:
    """Return the slips of one agent in one task: those it has a habit of, most of the time; one or two."""
    chosen: list[Slip] = []
    for slip in sorted(slips, key=lambda candidate: _draw(f"{task}:{candidate.kind}:{candidate.habit}:order")):
        # Without the task: a habit recurs in other tasks, which is what makes it worth a lesson.
        is_habit = _draw(f"{seed}:{slip.kind}:{slip.habit}") < habits[slip.kind]
        # Two slips at one call would hide each other.
        free = not any(slip.positions & other.positions for other in chosen)
        if is_habit and free and _draw(f"{seed}:{task}:{slip.kind}:{slip.habit}") < SLIP_SHARE:
            chosen.append(slip)
    return chosen[: 2 if _draw(f"{seed}:{task}:second") < SECOND_SHARE else 1]


def _skipped(
    open_world: Callable[[], World], plan: Sequence[PlannedCall], answers: Sequence[ScriptedAnswer]
) -> Iterator[Slip]:
    """Leave out a call without which a later call fails."""
    for index, call in enumerate(plan):
        if answers[index].is_error:
            continue
        for later, answer in enumerate(replay(open_world(), plan, without=index)):
            if later > index and answer and answer.is_error and not answers[later].is_error:
                yield Slip(kind="skipped", habit=(call.name, plan[later].name), dropped=(index,))
                break


def _wrong_forms(plan: Sequence[PlannedCall], forms: WrongForms) -> Iterator[Slip]:
    """Write an argument in a form that the tool does not take."""
    for index, call in enumerate(plan):
        for name, value in call.arguments.items():
            wrong = forms[call.name, name](value) if (call.name, name) in forms else value
            if wrong != value:
                changed = replace(call, arguments=call.arguments | {name: wrong})
                yield Slip(kind="form", habit=(call.name, name), replaced={index: changed})


def _find_sources(
    plan: Sequence[PlannedCall], answers: Sequence[ScriptedAnswer], requests: Sequence[str]
) -> Iterator[tuple[tuple[int, str], int]]:
    """Yield the arguments whose value only an earlier answer holds, each with the call of that answer."""
    for index, call in enumerate(plan):
        text = "\n".join(requests[: call.turn + 1])
        for name, value in call.arguments.items():
            # Two digits or more: shorter values stand in any text by chance.
            if isinstance(value, (bool, list, dict)) or not re.search(r"\d\d", str(value)) or occurs(value, text):
                continue
            source = next((at for at in range(index) if occurs(value, answers[at].text)), None)
            if source is not None:
                yield (index, name), source


def _invented(work: Work) -> Iterator[Slip]:
    """Make up a value that only an earlier answer holds, without asking for that answer."""
    for (index, name), source in work.sources.items():
        call = work.plan[index]
        value = call.arguments[name]
        if any(
            occurs(value, str(argument)) for earlier in work.plan[:index] for argument in earlier.arguments.values()
        ):
            continue
        changed = replace(call, arguments=call.arguments | {name: make_up(value)})
        # A call of an earlier turn was made then and cannot be left out now.
        dropped = (source,) if work.plan[source].turn == call.turn else ()
        habit = (call.name, name, work.plan[source].name)
        yield Slip(kind="invented", habit=habit, dropped=dropped, replaced={index: changed})


def _wrong_tools(plan: Sequence[PlannedCall], tools: WrongTools) -> Iterator[Slip]:
    """Take a tool that sounds right."""
    for index, call in enumerate(plan):
        if call.name in tools:
            wrong, convert = tools[call.name]
            changed = replace(call, name=wrong, arguments=convert(call.arguments))
            yield Slip(kind="wrong tool", habit=(call.name, wrong), replaced={index: changed})


def _forgotten(plan: Sequence[PlannedCall]) -> Iterator[Slip]:
    """Leave out the last of several calls that a request needs."""
    for index, call in enumerate(plan):
        is_last = index + 1 == len(plan) or plan[index + 1].turn != call.turn
        if is_last and index and plan[index - 1].turn == call.turn:
            yield Slip(kind="forgotten", habit=(plan[index - 1].name, call.name), dropped=(index,))


def make_up(value: Any) -> Any:
    """Return a value of the same kind that looks plausible."""
    if isinstance(value, int):
        return 1
    if isinstance(value, float):
        return 100.0 if value >= 10 else 1.0
    # The same length and signs, so that it looks like a value that was read somewhere.
    digits = iter("1234567890" * len(value))
    return re.sub(r"\d", lambda _: next(digits), str(value))


def occurs(value: Any, text: str) -> bool:
    """Tell whether a text holds a value as a whole word."""
    # 12.0 may stand in a text as 12.
    forms = {str(value), f"{value:g}"} if isinstance(value, float) else {str(value)}
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text) for form in forms)


def _draw(key: str) -> float:
    return random.Random(key).random()  # noqa: S311 - repeatable by design
