"""The same call was repeated with the same error, and nothing changed in between."""

from collections import Counter
from itertools import pairwise

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, says_something
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.wording import code, times

FAILING_REPEATS = 3
LONG_SERIES = 10  # where no other run shows the same
MAX_DISTINCT = 300


def find(run: RunView) -> list[RuleMatch]:
    """Look for calls repeated with unchanged arguments."""
    matches = []
    groups: dict[tuple[str, str, str], list[Call]] = {}
    for call in run.calls:
        key = (call.name, repr(call.arguments), call.output)
        if key in groups or len(groups) < MAX_DISTINCT:
            groups.setdefault(key, []).append(call)
    for same in groups.values():
        same = _in_vain(run, same)
        call = same[0]
        if call.is_edit or run.succeeded:
            continue
        if call.error is None or len(same) < FAILING_REPEATS or call.error.has(ErrorKind.TRANSIENT):
            continue
        if len(same) < LONG_SERIES and not any(_repeats(other, call) for other in run.family):
            continue
        if says_something(call.error.shape) and (call.is_unknown or not call.is_check):
            matches.append(_failing(run, call, same))
    return matches


def _repeats(run: RunView, call: Call) -> bool:
    """Return whether a run repeats a call of the same tool with the same error."""
    assert call.error is not None
    counts = Counter(
        (c.name, repr(c.arguments))
        for c in run.calls
        if c.name == call.name and c.error and c.error.shape == call.error.shape
    )
    return max(counts.values(), default=0) >= FAILING_REPEATS


def _in_vain(run: RunView, same: list[Call]) -> list[Call]:
    """Return the longest series of these calls between which no edit succeeded."""
    edits = [call.index for call in run.calls if call.is_edit and not call.error]
    series: list[list[Call]] = [[same[0]]]
    for earlier, later in pairwise(same):
        if any(earlier.index < edit < later.index for edit in edits):
            series.append([])
        series[-1].append(later)
    return max(series, key=len)


def _failing(run: RunView, call: Call, same: list[Call]) -> RuleMatch:
    tool = code(call.label)
    assert call.error is not None  # only failing calls come here
    worked = next((c for c in run.calls if c.label == call.label and c.index > same[-1].index and not c.error), None)
    return RuleMatch(
        rule="repeated_call",
        trigger=f'When {tool} has just answered "{call.error.shape}" twice to the same arguments',
        guideline=(
            "Do not send it again unchanged. Read what the error asks for and change that; if it names nothing, "
            "look the right value up with another tool or take another way, and if there is none, say what stands in "
            "the way."
        ),
        avoid="Repeating a failing call in the hope of another answer.",
        rationale=(
            f"{tool} was called {times(len(same))} with the same arguments, from step {same[0].index} to step "
            f'{same[-1].index}, and answered "{call.error.shape}" every time'
            f"{f'; it worked only with other arguments, at step {worked.index}' if worked else ''}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.5,
        citations=tuple(run.cite(each.step, call.error.text) for each in same[:3]),
        tools=(call.name,),
    )
