"""A call failed for its arguments, and the run gave the work up without another try."""

import re
from dataclasses import dataclass

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.wording import code

_NOT_TO_INSIST = (ErrorKind.REFUSED, ErrorKind.UNAVAILABLE, ErrorKind.TRANSIENT, ErrorKind.PRECONDITION)
_WAY_OUT = re.compile(r"\b(?:could not|couldn't|cannot|can't|unable|not (?:able|possible)|unfortunately|sorry)\b", re.I)


@dataclass(frozen=True, kw_only=True)
class _Advice:
    trigger: str
    guideline: str


_LOOK_UP = _Advice(
    trigger="When a call fails because nothing is found under the name, id or path it was given",
    guideline=(
        "Look up the exact spelling and place with a tool that lists or searches, and make the call again with what "
        "that tool returns; only then say that it cannot be done."
    ),
)
_CORRECT = _Advice(
    trigger="When a call fails because an argument is missing, wrong or in a form that the tool does not accept",
    guideline=(
        "Read in the error and in the tool's description what it expects, correct that argument, and make the call "
        "again before you say that it cannot be done."
    ),
)


def find(run: RunView) -> list[RuleMatch]:
    """Look for the first failing call after which the agent said that it could not, or stopped, in a failed run."""
    if not run.failed:
        return []
    for call in run.calls:
        if call.error is None or call.command is not None or call.is_edit or call.error.has(*_NOT_TO_INSIST):
            continue
        if any(other is not call and other.same_as(call) for other in run.calls):
            continue  # it did try again, in vain
        if any(later.index > call.index and later.name == call.name for later in run.calls):
            continue
        end = _end_of_work(run, call)
        advice = _advice_for(call)
        if end and advice:
            return [_make_match(run, call, advice, end=end)]
    return []


def _advice_for(call: Call) -> _Advice | None:
    assert call.error is not None
    if call.error.has(ErrorKind.NOT_FOUND):
        return _LOOK_UP
    return _CORRECT if call.error.has(ErrorKind.FORM, ErrorKind.MISSING) else None


def _end_of_work(run: RunView, call: Call) -> str:
    """Return how the agent ended right after a call: in which words, or by stopping; "" if it went on."""
    steps = run.episode.steps[call.index :]
    if not steps:
        return "the run ended"
    turn = next((turn for turn in run.turns if turn.step is steps[0]), None)
    if turn and _WAY_OUT.search(turn.said):
        return "the agent said that it could not do it"
    return "the agent answered" if turn and turn.step is run.episode.steps[-1] else ""


def _make_match(run: RunView, call: Call, advice: _Advice, *, end: str) -> RuleMatch:
    assert call.error is not None
    after = run.episode.steps[call.index : call.index + 1]
    return RuleMatch(
        rule="gave_up",
        trigger=advice.trigger,
        guideline=advice.guideline,
        avoid="Giving up after the first failure.",
        rationale=(
            f'{code(call.name)} answered "{call.error.shape}" at step {call.index}, and {end} without another try. '
            f"{run.ending}"
        ),
        polarity="avoid",
        confidence=0.55,
        citations=(run.cite(call.step, call.error.text), *(run.cite(step) for step in after)),
    )
