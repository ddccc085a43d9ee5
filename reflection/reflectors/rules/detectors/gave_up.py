"""A call failed, its answer said what was wrong with an argument, and the run gave up without another try."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, ErrorShape, says_something, shape_of
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code

_NOT_TO_INSIST = (ErrorKind.REFUSED, ErrorKind.UNAVAILABLE, ErrorKind.TRANSIENT, ErrorKind.PRECONDITION)
_WAY_OUT = re.compile(r"\b(?:could not|couldn't|cannot|can't|unable|not (?:able|possible)|unfortunately|sorry)\b", re.I)
_SAYS_WHAT = re.compile(
    r"\b(?:must (?:be|have|start|end|contain)|should be|expected|expects|please (?:use|give|pass|provide)|required"
    r"|(?:is|are|use one of): )",
    re.IGNORECASE,
)
_NAME = re.compile(r"[\w.:/-]{2,120}")  # no word of a sentence, which some logs have in place of a call
# What to do instead, in a clause of its own.
_ADVICE = re.compile(
    r"(?:please |instead,? )(?:use|try|call|provide|pass|set|get|run|specify)\b[^.!?;\n]{3,80}"
    r"|\b(?:use|try|call|run|get|pass) [^.!?;,\n]{2,60} (?:instead|directly|first)\b",
    re.IGNORECASE,
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for the first such call after which the agent said that it could not, or stopped, in a failed run."""
    if not run.failed:
        return []
    for call in run.calls:
        if call.error is None or call.command is not None or call.is_edit or not _NAME.fullmatch(call.name):
            continue
        advice = _advice_of(call.error)
        if call.error.has(ErrorKind.TRANSIENT) or (call.error.has(*_NOT_TO_INSIST) and not advice):
            continue
        others = [other for other in run.calls if other is not call and other.name == call.name]
        if any(other.index > call.index or other.same_as(call) for other in others):
            # It did try again.
            continue
        end = _end_of_work(run, call)
        is_clear = advice or _SAYS_WHAT.search(call.error.shape)
        if end and is_clear and says_something(call.error.shape):
            return [_make_match(run, call, end=end, advice=advice)]
    return []


def _advice_of(error: ErrorShape) -> str:
    """Return what an error says to do instead, without values of the run, or ""."""
    match = _ADVICE.search(error.text)
    return shape_of(match[0]) if match else ""


def _end_of_work(run: ReadRun, call: RunCall) -> str:
    """Return how the agent ended right after a call: in which words, or by stopping; "" if it went on."""
    steps = run.episode.steps[call.index :]
    if not steps:
        return "the run ended"
    turn = next((turn for turn in run.turns if turn.step is steps[0]), None)
    if turn and _WAY_OUT.search(turn.said):
        return "the agent said that it could not do it"
    return "the agent answered" if turn and turn.step is run.episode.steps[-1] else ""


def _make_match(run: ReadRun, call: RunCall, *, end: str, advice: str) -> RuleMatch:
    assert call.error is not None
    tool, after = code(call.name), run.episode.steps[call.index : call.index + 1]
    return RuleMatch(
        rule="gave_up",
        trigger=f'When {tool} answers "{call.error.shape}"',
        guideline=(
            f'Do what the answer says before you give up: "{advice}".'
            if advice
            else f"Change the argument as the answer says, and call {tool} again before you give up."
        ),
        avoid="Giving up after the first failure.",
        rationale=(
            f'{tool} answered "{call.error.shape}" at step {call.index}, and {end} without another try. {run.ending}'
        ),
        polarity="avoid",
        confidence=0.55,
        citations=(run.cite(call.step, call.error.text), *(run.cite(step) for step in after)),
        tools=(call.name,),
    )
