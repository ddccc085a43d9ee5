"""A call ended the run for good: the environment said that all was lost."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall, occurs
from reflection.reflectors.rules.wording import code

MIN_INSTRUCTION_CHARS = 80

_LOST = re.compile(r"^.*\b(?:you (?:have |'ve )?(?:lost|died|lose)|you are dead|game over)\b.*$", re.I | re.M)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for the call whose answer says that the run is lost, and what had been read about its arguments before."""
    lost = next((call for call in run.calls if _LOST.search(call.answer)), None)
    if lost is None or not run.failed:
        return []
    told = _told_before(run, lost)
    subject = _subject(run, told) if told else ""
    return [_make_match(run, lost, told, subject=subject)] if told and subject else []


def _told_before(run: ReadRun, lost: RunCall) -> RunCall | None:
    """Return the last long text that was read and names what the call was about."""
    values = [value for group in lost.leaves.values() for value in group if isinstance(value, str)]
    for call in reversed(run.calls):
        is_told = call.index < lost.index and call.only_reads and len(call.answer) >= MIN_INSTRUCTION_CHARS
        if is_told and not call.error and any(occurs(value, call.answer) for value in values):
            return call
    return None


def _subject(run: ReadRun, told: RunCall) -> str:
    """Return the argument of the call that told, in words, if another run of the family made the very same call."""
    values = list(told.arguments.values())
    is_usual = any(c.same_as(told) for other in run.family for c in other.calls)
    is_plain = len(values) == 1 and isinstance(values[0], str) and re.fullmatch(r"[a-z ]{3,30}", values[0]) is not None
    return f'"{values[0]}"' if is_plain and is_usual else ""


def _make_match(run: ReadRun, lost: RunCall, told: RunCall, *, subject: str) -> RuleMatch:
    match = _LOST.search(lost.answer)
    tool, source = code(lost.label), f"{code(told.label)} of {subject}"
    return RuleMatch(
        rule="fatal_call",
        trigger=f"When about to call {tool}, which cannot be undone",
        guideline=(
            f"Check every argument against what {source} says about it, and call {tool} only if they agree: a wrong "
            "call ends the run at once."
        ),
        avoid=f"Calling {tool} with arguments that have not been checked.",
        rationale=(
            f"The call of {tool} at step {lost.index} lost the run. {source} had described the same thing at step "
            f"{told.index}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.7,
        citations=(run.cite(told.step, told.quotable), run.cite(lost.step, match[0].strip() if match else "")),
        tools=(lost.name, told.name),
    )
