"""The same call was repeated, with the same error or the same answer, and nothing changed in between."""

from itertools import pairwise

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, says_something
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.wording import code, times

FAILING_REPEATS = 3
ANSWERED_REPEATS = 4
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
        if call.is_check and not call.is_unknown:
            if call.is_red and len(same) >= FAILING_REPEATS:
                matches.append(_unchanged_check(run, call, same))
            continue
        if call.error and len(same) >= FAILING_REPEATS and not call.error.has(ErrorKind.TRANSIENT):
            if says_something(call.error.shape):
                matches.append(_failing(run, call, same))
        elif not call.error and len(same) >= ANSWERED_REPEATS and call.answer.strip():
            matches.append(_answered(run, call, same))
    return matches


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
        trigger="When the same call with the same arguments has just failed for the second time with the same error",
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
    )


def _unchanged_check(run: RunView, call: Call, same: list[Call]) -> RuleMatch:
    tool = code(call.label)
    return RuleMatch(
        rule="repeated_call",
        trigger="When tests or a build have failed and nothing has been changed since",
        guideline=(
            "Do not run them again yet. Read the first failure, what was expected and what came instead, change the "
            "code accordingly, and then run them."
        ),
        avoid="Running the same check again without a change.",
        rationale=(
            f"{tool} ran {times(len(same))}, from step {same[0].index} to step {same[-1].index}, with the same failure "
            f"and no edit in between. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.6,
        citations=tuple(run.cite(each.step, each.quotable) for each in same[:3]),
        tools=(call.name,),
    )


def _answered(run: RunView, call: Call, same: list[Call]) -> RuleMatch:
    tool = code(call.label)
    return RuleMatch(
        rule="repeated_call",
        trigger="When about to send a call with arguments that have already been answered twice in the same way",
        guideline=(
            "Use the answer that is there. If it does not help, change the arguments, or choose another tool or "
            "another way to the goal."
        ),
        avoid="Going round in a circle of calls that have already been answered.",
        rationale=(
            f"{tool} was called {times(len(same))} with the same arguments and gave the same answer, from step "
            f"{same[0].index} to step {same[-1].index}; nothing came of it. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.45,
        citations=tuple(run.cite(each.step, each.quotable) for each in same[:3]),
    )
