"""The same call was repeated with the same error or answer, and nothing changed in between."""

import re
from collections import Counter
from itertools import pairwise

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import END_OF_RUN, ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall, occurs
from reflection.reflectors.rules.wording import code, is_general, times

LONG_SERIES = 10  # shorter ones seldom decide how a run ends …
MIN_LAST_CALLS, MIN_SHARE = 3, 0.5  # … unless it ended with them, and they are most of it …
MIN_WITHOUT_LIMIT = 4  # … which a limit shows better than a failure
MIN_RESENT = 2  # of calls with one error, where the tool never worked after that
MAX_DISTINCT = 300
_WRONG = re.compile(r"\b(?:incorrect|wrong|not (?:correct|right))\b", re.IGNORECASE)
_ONE_LINER = re.compile(r" -[ce] ?['\"]")
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
    resent = Counter[tuple[str, str]]()
    for same in groups.values():
        if same[0].error:
            resent[same[0].label, same[0].error.shape] += len(same) - 1
    if match := _loop(run, [same for same in groups.values() if len(same) >= MIN_LAST_CALLS]):
        matches.append(match)
    for same in groups.values():
        same = _in_vain(run, same)
        call = same[0]
        if run.succeeded or (call.is_edit and not _ended_with(run, same)):
            continue
        if call.error is None or call.error.has(ErrorKind.TRANSIENT):
            continue
        if _is_guess(run, same):
            matches.append(_guessed(run, same))
            continue
        is_resent = resent[call.label, call.error.shape] >= MIN_RESENT and _never_worked(run, same)
        if len(same) < LONG_SERIES and not _ended_with(run, same) and not is_resent:
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


def _loop(run: ReadRun, groups: list[list[RunCall]]) -> RuleMatch | None:
    """Return the lesson of calls that had the same answer each time, and are most of a failed run and its end."""
    groups = [same for same in groups if not same[0].error and not same[0].is_edit and same[0].answer.strip()]
    last = next((same for same in groups if run.calls and same[-1] is run.calls[-1]), None)
    share = sum(map(len, groups)) / max(len(run.calls), 1)
    if not run.failed or last is None or share < MIN_SHARE or not is_general(code(last[0].label)):
        return None
    tool = code(last[0].label)
    return RuleMatch(
        rule="repeated_call",
        trigger=f"When {tool} has given the same answer to the same arguments twice",
        guideline=(
            "Do not send it again: nothing has changed, and it will answer the same. If the answer has what the task "
            "asks for, hand it in now in the way that the task names; if not, change the arguments or take another "
            "tool."
        ),
        avoid="Going round in a circle of calls whose answers are known.",
        rationale=(
            f"{tool} was called {times(len(last))} with the same arguments, from step {last[0].index} to step "
            f"{last[-1].index}, and answered the same each time; such calls are {share:.0%} of the run. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.55,
        citations=tuple(run.cite(repeat.step, repeat.quotable) for repeat in (last[0], last[-1])),
        tools=(last[0].name,),
    )


def _never_worked(run: ReadRun, same: list[RunCall]) -> bool:
    """Return whether calls of a failed run are no passing or forbidden ones, and the tool never worked again."""
    first, error = same[0], same[0].error
    worked = any(call.label == first.label and not call.error and call.index > first.index for call in run.calls)
    is_passing = error is None or error.has(ErrorKind.REFUSED, ErrorKind.UNAVAILABLE, ErrorKind.TRANSIENT)
    return run.failed and len(same) > 1 and not is_passing and not worked and not first.is_edit


def _is_guess(run: ReadRun, same: list[RunCall]) -> bool:
    """Return whether a failed run handed in the same wrong answer twice, and nothing had shown it."""
    call = same[0]
    if not run.failed or len(same) < 2 or call.error is None or not _WRONG.search(call.error.text):
        return False
    texts = call.command.text.split()[1:] if call.command else [str(v) for vs in call.leaves.values() for v in vs]
    return len(texts) == 1 and not occurs(texts[0], run.text_before(call.index)) and is_general(code(call.label))


def _guessed(run: ReadRun, same: list[RunCall]) -> RuleMatch:
    tool, error = code(same[0].label), same[0].error
    assert error is not None
    return RuleMatch(
        rule="repeated_call",
        trigger=f'When about to call {tool}, or when it has answered "{error.shape}"',
        guideline=(
            "Hand in only what an answer of another call shows. If it is refused, look for the mistake in how it was "
            "found, and check each step of that by a call, before you hand in anything again."
        ),
        avoid="Handing in a guess, or what was refused before.",
        rationale=(
            f"{tool} was called {times(len(same))} with the same text, which no answer before had shown, and answered "
            f'"{error.shape}". {run.ending}'
        ),
        polarity="avoid",
        confidence=0.6,
        citations=tuple(run.cite(repeat.step, error.text) for repeat in same[:3]),
        tools=(same[0].name,),
    )


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
            "Do not send it again. Write the program into a file and run that file: what is refused is the form of the "
            "command line, above all quotes within quotes."
            if call.command and _ONE_LINER.search(call.command.text) and call.error.has(ErrorKind.FORM)
            else "Do not send it again unchanged. Read what the error asks for and change that. If it names nothing, "
            "look up the right value with another tool or try another approach; if there is none, say what is missing."
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
