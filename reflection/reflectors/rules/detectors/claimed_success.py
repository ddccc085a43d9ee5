"""The run ended as if its work were done, though the last call of a tool that does the work had failed."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_read, words_of
from reflection.reflectors.rules.wording import code, is_general

MIN_WORD_CHARS = 4

_DONE = re.compile(
    r"\b(?:successfully|(?:has|have) been \w+(?:ed|en|t|d)\b|is now|are now|done|completed?|finished"
    r"|i(?:'ve| have) \w+ed)\b",
    re.IGNORECASE,
)
_ADMITS = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|unable|fail(?:ed|s|ures?)?|errors?|unfortunately|sorry|unsuccessful|however"
    r"|not|only|instead|issues?|problems?)\b|n't\b",
    re.IGNORECASE,
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for a last answer that claims success and is silent about a failed change that was never made good."""
    if not run.failed or not _DONE.search(run.closing) or _ADMITS.search(run.closing):
        return []
    for call in reversed(run.calls):
        is_last = call is run.calls[-1]
        if call.error is None or call.command or is_read(call.name) or not is_general(code(call.name)):
            continue
        if code_of(call) and not is_last:
            continue
        if call.error.has(ErrorKind.TRANSIENT) or not says_something(call.error.shape):
            continue
        later = [other for other in run.calls if other.index > call.index and not other.error]
        # Another tool may have done the work.
        if any(other.name == call.name or not other.only_reads for other in later) or not (
            is_last or _speaks_of(run, call)
        ):
            continue
        return [_make_match(run, call)]
    return []


def _speaks_of(run: ReadRun, call: RunCall) -> bool:
    """Return whether the request or the last words have a word of the tool's name."""
    text = f"{run.episode.task}\n{run.closing}".lower()
    return any(word in text for word in words_of(call.name) if len(word) >= MIN_WORD_CHARS)


def _make_match(run: ReadRun, call: RunCall) -> RuleMatch:
    assert call.error is not None
    tool = code(call.name)
    last = run.episode.steps[-1]
    return RuleMatch(
        rule="claimed_success",
        trigger=f"When about to say that the work is done after {tool} was answered with an error",
        guideline=(
            f'Do not report success: "{call.error.shape}" means that {tool} did nothing. Correct its arguments and '
            "call it again, or say plainly which part was not done and why."
        ),
        avoid="Telling the user that something was done which a tool had refused.",
        rationale=(
            f'{tool} answered "{call.error.shape}" at step {call.index} and did not work after that, but the agent '
            f"said at the end that it was done. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.57,
        citations=(run.cite(call.step, call.error.text), run.cite(last)),
        tools=(call.name,),
    )
