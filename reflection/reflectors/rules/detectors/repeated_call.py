"""The same call was repeated many times with the same error, and nothing changed in between."""

import re
from itertools import pairwise

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import END_OF_RUN, ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, times

LONG_SERIES = 10  # shorter ones seldom decide how a run ends …
MIN_LAST_CALLS, MIN_SHARE = 3, 0.5  # … unless it ended with them, and they are most of it …
MIN_WITHOUT_LIMIT = 4  # … which a limit shows better than a failure
MAX_DISTINCT = 300
_OF_A_TEST = re.compile(r"\bassert|==|[{}]")


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for calls repeated with unchanged arguments."""
    matches = []
    groups: dict[tuple[str, str, str], list[RunCall]] = {}
    for call in run.calls:
        # Some answers count the steps, so that no two of them are the same.
        answer = call.error.text if call.error else call.output
        key = (call.name, repr(call.arguments), END_OF_RUN.sub("", answer))
        if key in groups or len(groups) < MAX_DISTINCT:
            groups.setdefault(key, []).append(call)
    for same in groups.values():
        same = _in_vain(run, same)
        call = same[0]
        if run.succeeded or (call.is_edit and not _ended_with(run, same)):
            continue
        if call.error is None or call.error.has(ErrorKind.TRANSIENT):
            continue
        if len(same) < LONG_SERIES and not _ended_with(run, same):
            continue
        is_about_call = call.is_unknown or not (call.is_check or _OF_A_TEST.search(call.error.shape))
        if call.arguments and says_something(call.error.shape) and is_about_call:
            matches.append(_failing(run, call, same))
    return matches


def _ended_with(run: ReadRun, same: list[RunCall]) -> bool:
    """Return whether a limit or a failure ended a run with these calls, and they are most of it."""
    error = same[0].error
    if not run.cut_off and (
        not run.failed or len(same) < MIN_WITHOUT_LIMIT or not error or error.has(ErrorKind.REFUSED)
    ):
        return False
    enough = max(MIN_LAST_CALLS, MIN_SHARE * len(run.calls))
    return len(same) >= enough and list(run.calls[-MIN_LAST_CALLS:]) == same[-MIN_LAST_CALLS:]


def _in_vain(run: ReadRun, same: list[RunCall]) -> list[RunCall]:
    """Return the longest series of these calls between which no edit succeeded."""
    edits = [call.index for call in run.calls if call.is_edit and not call.error]
    series: list[list[RunCall]] = [[same[0]]]
    for earlier, later in pairwise(same):
        if any(earlier.index < edit < later.index for edit in edits):
            series.append([])
        series[-1].append(later)
    return max(series, key=len)


def _failing(run: ReadRun, call: RunCall, same: list[RunCall]) -> RuleMatch:
    tool = code(call.label)
    # Only failing calls come here.
    assert call.error is not None
    worked = next((c for c in run.calls if c.label == call.label and c.index > same[-1].index and not c.error), None)
    return RuleMatch(
        rule="repeated_call",
        trigger=f'When {tool} has just answered "{call.error.shape}" twice for the same arguments',
        guideline=(
            "Do not send it again unchanged. Read what the error asks for and change that. If it names nothing, look "
            "up the right value with another tool or try another approach; if there is none, say what is missing."
        ),
        avoid="Repeating a failing call in the hope of a different answer.",
        rationale=(
            f"{tool} was called {times(len(same))} with the same arguments, from step {same[0].index} to step "
            f'{same[-1].index}, and answered "{call.error.shape}" every time'
            f"{f'; it worked only with other arguments, at step {worked.index}' if worked else ''}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.5,
        citations=tuple(run.cite(repeat.step, call.error.text) for repeat in same[:3]),
        tools=(call.name,),
    )
