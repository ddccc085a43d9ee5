"""Edits of a file that change nothing: a text replaced by itself, or an edit and its undoing in turn."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, times

MIN_SWAPS = 2

_OLD = re.compile(r"(?:^|_)(?:old|search|find|original)(?:_|$)|^old", re.IGNORECASE)
_NEW = re.compile(r"(?:^|_)(?:new|replace|replacement|updated)(?:_|$)|^new", re.IGNORECASE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such edits in runs that did not succeed."""
    if run.succeeded:
        return []
    edits = [(call, pair) for call in run.calls if (pair := _pair_of(call))]
    matches = [_empty(run, edits), _swapped(run, edits)]
    return [match for match in matches if match]


def _pair_of(call: RunCall) -> tuple[str, str] | None:
    """Return the names of the parameters with the old and the new text of an edit."""
    texts = [name for name, value in call.arguments.items() if isinstance(value, str) and value]
    old = [name for name in texts if _OLD.search(name)]
    new = [name for name in texts if _NEW.search(name)]
    return (old[0], new[0]) if len(old) == len(new) == 1 and old != new else None


def _empty(run: ReadRun, edits: list[tuple[RunCall, tuple[str, str]]]) -> RuleMatch | None:
    same = [(call, pair) for call, pair in edits if call.arguments[pair[0]] == call.arguments[pair[1]]]
    if not same:
        return None
    call, (old, new) = same[0]
    tool = code(call.name)
    return RuleMatch(
        rule="idle_edit",
        trigger=f"When about to call {tool} with the same text as {code(old)} and {code(new)}",
        guideline=(
            f"Do not send it: it changes nothing, even if {tool} reports success. Read the file as it is now and what "
            "the failing check compares, or print that value; then send a text that differs."
        ),
        avoid="Replacing a text by itself and running the check again.",
        rationale=(
            f"{tool} was given the same text as {code(old)} and {code(new)} {times(len(same))}, first at step "
            f"{call.index}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.76,
        citations=tuple(run.cite(each.step, _line_of(each, old)) for each, (old, _) in same[:3]),
        tools=(call.name,),
    )


def _swapped(run: ReadRun, edits: list[tuple[RunCall, tuple[str, str]]]) -> RuleMatch | None:
    changes = [
        (call, old, (call.arguments[old].strip(), call.arguments[new].strip()))
        for call, (old, new) in edits
        if not call.error and call.arguments[old] != call.arguments[new]
    ]
    undone = [
        (call, old)
        for number, (call, old, (before, after)) in enumerate(changes)
        if any(earlier == (after, before) for _, _, earlier in changes[:number])
    ]
    if len(undone) < MIN_SWAPS:
        return None
    tool = code(undone[0][0].name)
    return RuleMatch(
        rule="idle_edit",
        trigger=f"When about to undo with {tool} what an earlier {tool} changed, because the check still fails",
        guideline=(
            "Both versions have failed, so do not swap them again: keep the names that the check uses, read the check "
            "and the file, or print the value that it compares, and change another part of the code."
        ),
        avoid="Editing the same lines to and fro.",
        rationale=(
            f"{tool} put back an earlier version {times(len(undone))}, first at step {undone[0][0].index}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.72,
        citations=tuple(run.cite(call.step, _line_of(call, old)) for call, old in undone[:3]),
        tools=(undone[0][0].name,),
    )


def _line_of(call: RunCall, parameter: str) -> str:
    """Return the first line of an argument that says something."""
    lines = (line.strip() for line in str(call.arguments[parameter]).splitlines())
    return next((line for line in lines if len(line) > 2), "")
