"""A command or tool did not exist here, and another one did the same work."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import RunCall, RunView
from reflection.reflectors.rules.tools import is_harmful
from reflection.reflectors.rules.wording import code

MAX_TRIES = 6

# What stands in for a command on machines that do not have it.
_USUAL = {"rg": "grep -rn", "ag": "grep -rn", "ack": "grep -rn", "fd": "find", "python": "python3", "bat": "cat"}
_NOT_FOUND = re.compile(r"not found|not recogni[sz]ed|No module named|exit(?:ed with)? code:? 127", re.IGNORECASE)


def find(run: RunView) -> list[RuleMatch]:
    """Look for an unknown command or tool, and the next or an earlier call that did the same with another name."""
    matches: dict[str, RuleMatch] = {}
    for number, failed in enumerate(run.calls):
        if failed.error is None or not _is_unknown(failed) or failed.label in matches:
            continue
        nearby = (*run.calls[number + 1 : number + 1 + MAX_TRIES], *reversed(run.calls[:number]))
        other = next((c for c in nearby if not c.error and c.label != failed.label and _does_the_same(failed, c)), None)
        if other is not None and not _is_unsafe(other):
            matches[failed.label] = _make_match(run, failed, other)
        elif other is None and failed.command and failed.command.program in _USUAL and not run.succeeded:
            matches[failed.label] = _of_usual(run, failed, _USUAL[failed.command.program])
    return list(matches.values())


def _is_unknown(call: RunCall) -> bool:
    assert call.error is not None
    if call.command is None:
        return call.error.has(ErrorKind.UNKNOWN_NAME)
    output = call.output[:2000]
    lines = [line for line in output.splitlines() if _NOT_FOUND.search(line)]
    return any(re.search(rf"\b{re.escape(call.command.program)}\b|No module named|code", line) for line in lines) and (
        call.error.has(ErrorKind.UNKNOWN_NAME)
        or "127" in output
        or re.search(rf"No module named '?{re.escape((*call.command.arguments, '-', '-')[1])}", output) is not None
    )


def _does_the_same(failed: RunCall, other: RunCall) -> bool:
    if failed.command and other.command:
        if other.command.is_reader != failed.command.is_reader:
            return False
        words = {word for word in failed.command.arguments if not word.startswith("-") and len(word) > 1}
        same_program = re.search(rf"\b{re.escape(failed.command.program)}\d?\b", other.command.text) is not None
        return same_program or not words.isdisjoint(other.command.arguments)
    if failed.command or other.command:
        return False
    values = {str(value) for group in failed.leaves.values() for value in group if len(str(value)) > 2}
    return not values.isdisjoint(str(value) for group in other.leaves.values() for value in group)


def _is_unsafe(call: RunCall) -> bool:
    return call.command.is_harmful if call.command else is_harmful(call.name)


def _names(failed: RunCall, other: RunCall) -> tuple[str, str]:
    """Return what to call the two: the programs if only these differ, else more of the commands."""
    if not failed.command or not other.command:
        return failed.name, other.name
    if "No module named" in failed.output or failed.command.program == other.command.program:
        return failed.label, other.label
    wraps = re.search(rf"\b{re.escape(failed.command.program)}\b", other.command.text.partition(" ")[2]) is not None
    return failed.command.program, other.label if wraps else other.command.program


def _make_match(run: RunView, failed: RunCall, other: RunCall) -> RuleMatch:
    assert failed.error is not None
    wrong, right = (code(name) for name in _names(failed, other))
    do, about = ("Run", "run") if failed.command else ("Call", "call")
    return RuleMatch(
        rule="unknown_name",
        trigger=f"When about to {about} {wrong} in this environment",
        guideline=f"{do} {right} instead: {wrong} does not exist here.",
        avoid=f"Trying {wrong} again.",
        rationale=(
            f'At step {failed.index} {wrong} was answered with "{failed.error.shape}"; at step {other.index} {right} '
            f"did the same work. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.85,
        citations=(run.cite(failed.step, failed.error.text), run.cite(other.step, other.quotable)),
        tools=(failed.name, other.name),
    )


def _of_usual(run: RunView, failed: RunCall, usual: str) -> RuleMatch:
    assert failed.error is not None
    assert failed.command is not None
    wrong, right = code(failed.command.program), code(usual)
    return RuleMatch(
        rule="unknown_name",
        trigger=f"When about to run {wrong} in this environment",
        guideline=f"Run {right} instead: {wrong} does not exist here.",
        avoid=f"Trying {wrong} again.",
        rationale=(
            f'At step {failed.index} {wrong} was answered with "{failed.error.shape}", and the run found nothing else '
            f"that did the work; {right} is the usual substitute. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.7,
        citations=(run.cite(failed.step, failed.error.text),),
        tools=(failed.name,),
    )
