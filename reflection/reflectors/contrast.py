"""What other runs of a task did where they part from this one, and several tries of a task as one run.

What success and failure of the same task have in common explains neither; the first calls that differ may (the method
behind ExpeL, Zhao et al., arXiv 2308.10144, and AutoGuide, Fu et al., arXiv 2403.08978). What agents say hardly ever
agrees in two runs, so runs part where their calls do.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE, Episode, EpisodeStep
from reflection.reflectors.excerpts import Focus, excerpt, stems_of
from reflection.reflectors.members import choose_members, read_json

MAX_CONTRASTS = 2
MAX_STEPS = 4  # of another run
MAX_COMPARED_STEPS = 300
MIN_ALIKE, MIN_SHARED_STEPS = 0.5, 2  # of the calls of a run of another task, and before they part
MAX_CHARACTERS, MAX_ANSWER_CHARACTERS = 160, 320  # of the arguments of a call, and of what it answered
MIN_WORDS = 5  # of a sentence to a person
MIN_TASK_WORDS = 4  # different ones
MIN_LETTERS = 0.7  # of its characters; commands and data have fewer

MIXED = "mixed"  # the outcome of several tries that ended differently
_LETTER = re.compile(r"[^\W\d_]|\s")
_SENTENCE_END = re.compile(r"[^\W\d_][.!?:][\"'’)*]?(?:\s|$)")
_Call = tuple[str, str, bool]  # a tool, its arguments, and whether it failed
_TALK: _Call = ("", "", False)


def find_contrasts(episode: Episode, family: Sequence[Episode]) -> dict[int, dict[str, Any]]:
    """Return what runs that ended otherwise did where they part from this one, those that agreed with it longest first.

    Each is found by its position in `family`.

    Runs of the same task are compared by their whole calls. If there is none, one of the family is, by its tools
    alone, since another task has other arguments; what goes another way from the start says nothing about this run.
    """
    end = ended(episode)
    others = {position: other for position, other in enumerate(family) if {end, ended(other)} == {"success", "failure"}}
    same_task = {
        position: other
        for position, other in others.items()
        if is_whole_task(episode.task, family=episode.task_id, has_earlier_turns=bool(episode.earlier))
        and other.task.strip() == episode.task.strip()
    }
    compared = [
        (contrast, position)
        for position, other in (same_task or others).items()
        if (contrast := _compare(episode, other, by_arguments=bool(same_task))) is not None
        and (same_task or (contrast[0] >= MIN_ALIKE and contrast[1]["alike_before"] >= MIN_SHARED_STEPS))
    ]
    compared.sort(key=lambda pair: -pair[0][0])
    chosen: dict[frozenset[str], tuple[int, dict[str, Any]]] = {}
    for (_, shown), position in compared:
        # A second run that did the same only costs tokens.
        chosen.setdefault(frozenset(step.get("tool", "") for step in shown["did_instead"]), (position, shown))
    return dict(list(chosen.values())[: MAX_CONTRASTS if same_task else 1])


def is_whole_task(task: str, *, family: str, has_earlier_turns: bool) -> bool:
    """Tell whether the same words in another run ask for the same.

    "hi" says nothing, "continue" depends on the turns before it, and the name of the family stands where no task was
    named.
    """
    return not has_earlier_turns and task != family and len(stems_of(task)) >= MIN_TASK_WORDS


def contrast_section(episode: Episode, *, limit: int, focus: Focus) -> Iterable[tuple[str, list[Any]]]:
    """Return the sections of a prompt on the tries in a run and on the runs it is compared with, if there are any.

    Args:
        episode: without secrets.
        limit: how many characters of each text are shown.
        focus: which of its parts.
    """
    if episode.tries:
        yield "TRIES IN THE TRAJECTORY", list(episode.tries)
    if episode.contrasts:
        yield (
            "RUNS THAT ENDED OTHERWISE",
            [_cut(contrast, limit, focus) for contrast in episode.contrasts],
        )


def join_tries(tries: Sequence[Episode]) -> Episode:
    """Return several tries of a task as one run, whose steps have numbers that go on from try to try.

    Of a later try, the calls with which it begins like the first are left out; `find_try` tells whose a number is.
    """
    first = tries[0]
    steps, notes, ends = list(first.steps), [], [ended(episode) for episode in tries]
    offset = 0
    for number, episode in enumerate(tries, 1):
        shared = _count_shared(first.steps, episode.steps) if number > 1 else 0
        if number > 1:
            steps += [replace(step, index=offset + step.index) for step in episode.steps[shared:]]
        shown = {"try": number, "steps": _write_range(offset, episode.steps[shared:])}
        notes.append(shown | {"outcome": episode.outcome, "score": episode.score})
        if shared:
            notes[-1]["left_out"] = f"its first {shared} steps, which are like those of try 1"
        offset += _last_index(episode)
    is_mixed = len(set(ends)) > 1
    return replace(
        first,
        steps=tuple(steps),
        outcome=MIXED if is_mixed else first.outcome,
        score=None if is_mixed else first.score,
        injected=tuple(dict.fromkeys(text for episode in tries for text in episode.injected)),
        tools=tuple(dict.fromkeys(name for episode in tries for name in episode.tools)),
        tries=tuple(notes),
    )


def find_try(tries: Sequence[Episode], number: int) -> tuple[int, int]:
    """Return of which try a step of the joined run is, counted from 0, and its number there."""
    for position, episode in enumerate(tries[:-1]):
        if number <= _last_index(episode):
            return position, number
        number -= _last_index(episode)
    return len(tries) - 1, number


def ended(run: Episode) -> str:
    """Return success, failure, or unknown where neither outcome nor score decides."""
    if run.outcome in ("success", "failure"):
        return run.outcome
    if run.score is not None and run.score >= SUCCESS_SCORE:
        return "success"
    return "failure" if run.score is not None and run.score < FAILURE_SCORE else "unknown"


def _compare(episode: Episode, other: Episode, *, by_arguments: bool) -> tuple[float, dict[str, Any]] | None:
    """Return how much of two runs is the same and where they part; None where no call differs."""
    steps, other_steps = episode.steps[:MAX_COMPARED_STEPS], other.steps[:MAX_COMPARED_STEPS]
    talk = _find_talk([*steps, *other_steps])
    calls = [_read_call(step, talk, by_arguments=by_arguments) for step in steps]
    other_calls = [_read_call(step, talk, by_arguments=by_arguments) for step in other_steps]
    matcher = SequenceMatcher(None, calls, other_calls, autojunk=False)
    # Where one of the two only talks more, they do not part.
    differing = [
        (start, other_start, other_end)
        for change, start, end, other_start, other_end in matcher.get_opcodes()
        if change != "equal" and {*calls[start:end], *other_calls[other_start:other_end]} != {_TALK}
    ]
    if not differing:
        return None
    start, other_start, _ = differing[0]
    own = [position for _, begin, end in differing for position in range(begin, end) if other_calls[position] != _TALK]
    if not own:
        # It called nothing else, so what it said decided: about where the runs part, and at the end.
        said = [at for at in range(max(0, other_start - 1), len(other_calls)) if other_calls[at] == _TALK]
        own = sorted({*said[:1], *said[-1:]})
    # The first ones show where they part, and the last one often what decided.
    chosen = own if len(own) <= MAX_STEPS else [*own[: MAX_STEPS - 1], own[-1]]
    avoided = dict.fromkeys(
        name for name, _, _ in calls if name not in {other_name for other_name, _, _ in other_calls}
    )
    shown: dict[str, Any] = {
        "task": "the same" if by_arguments else other.task,
        "outcome": other.outcome,
        "parts_at_step": steps[start].index if start < len(steps) else "the end of this run",
        "alike_before": sum(call != _TALK for call in other_calls[:other_start]),
        "did_instead": [_show(other_steps[position], steps if by_arguments else ()) for position in chosen],
        "never_called": list(avoided)[:MAX_STEPS],
    }
    return matcher.ratio(), shown


def _read_call(step: EpisodeStep, talk: frozenset[str], *, by_arguments: bool) -> _Call:
    if step.action is None or step.action.name in talk:
        return _TALK
    arguments = json.dumps(step.action.arguments, sort_keys=True, default=str) if by_arguments else ""
    return step.action.name, arguments, bool(step.error)


def _find_talk(steps: Iterable[EpisodeStep]) -> frozenset[str]:
    """Return the tools that mostly pass sentences to a person, such as `respond`."""
    speaking: dict[str, list[bool]] = {}
    for step in steps:
        if step.action is not None:
            values = list(step.action.arguments.values())
            speaking.setdefault(step.action.name, []).append(bool(values) and all(map(_is_prose, values)))
    return frozenset(name for name, speaks in speaking.items() if 2 * sum(speaks) > len(speaks))


def _is_prose(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    text = value[:500]
    is_worded = len(text.split()) >= MIN_WORDS and len(_LETTER.findall(text)) >= MIN_LETTERS * len(text)
    return is_worded and _SENTENCE_END.search(text) is not None


def _show(step: EpisodeStep, others: Sequence[EpisodeStep]) -> dict[str, Any]:
    """Return a step; of the arguments of a call only those that differ from the most similar call among `others`."""
    answer = {"error": step.error} if step.error else {"observation": step.observation}
    if step.action is None:
        return {"thought": step.thought} | answer
    arguments = step.action.arguments
    same_tool = [other for other in others if other.action and other.action.name == step.action.name]
    shared = [
        {name for name, value in arguments.items() if other.action and other.action.arguments.get(name) == value}
        for other in same_tool
    ]
    best = max(range(len(shared)), key=lambda at: len(shared[at]), default=None)
    shown: dict[str, Any] = {"tool": step.action.name, "arguments": arguments}
    if best is not None and shared[best]:
        shown["arguments"] = {name: value for name, value in arguments.items() if name not in shared[best]}
        shown["other_arguments"] = f"as in step {same_tool[best].index}"
    return shown | answer


def _cut(value: Any, limit: int, focus: Focus) -> Any:
    if isinstance(value, dict):
        return {name: _cut_member(name, item, limit, focus) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, limit, focus) for item in value]
    return excerpt(value, min(limit, MAX_ANSWER_CHARACTERS), focus) if isinstance(value, str) else value


def _cut_member(name: str, value: Any, limit: int, focus: Focus) -> Any:
    if name == "observation":
        return read_json(value, min(limit, MAX_ANSWER_CHARACTERS), focus)
    if name == "arguments":
        return choose_members(value, min(limit, MAX_CHARACTERS), focus)
    return _cut(value, limit, focus)


def _count_shared(steps: Sequence[EpisodeStep], others: Sequence[EpisodeStep]) -> int:
    """Return how many steps two runs share at the beginning, at most all but one."""
    shared, talk = 0, _find_talk([*steps, *others])
    for step, other in zip(steps, others[:-1], strict=False):
        if _read_call(step, talk, by_arguments=True) != _read_call(other, talk, by_arguments=True):
            break
        shared += 1
    return shared


def _last_index(episode: Episode) -> int:
    return max((step.index for step in episode.steps), default=0)


def _write_range(offset: int, steps: Sequence[EpisodeStep]) -> str:
    return f"{offset + steps[0].index} to {offset + steps[-1].index}" if steps else "none"
