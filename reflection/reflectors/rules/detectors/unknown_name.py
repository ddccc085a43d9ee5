"""A command or tool did not exist here, and another one did the same work."""

import re
from difflib import get_close_matches

from reflection.reflectors.rules.alternatives import find_alternatives
from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import MAX_ANSWER_CHARS, ErrorKind
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_harmful
from reflection.reflectors.rules.wording import code, is_general, listed, times

MAX_TRIES = 6
MIN_MISSES = 2
MAX_TOOLS = 12
MAX_NAMED = 4
MIN_LIKENESS = 0.75

# What stands in for a command on machines that do not have it.
_USUAL = {"rg": "grep -rn", "ag": "grep -rn", "ack": "grep -rn", "fd": "find", "python": "python3", "bat": "cat"}
_NO_PROGRAM = re.compile(
    r": ([\w.+-]{1,40}): (?:command )?not found|\bfind: '([\w.+-]{1,40})': No such file or directory"
)
_NOT_FOUND = re.compile(r"not found|not recogni[sz]ed|No module named|exit(?:ed with)? code:? 127", re.IGNORECASE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for an unknown command or tool, and the next or an earlier call that did the same with another name."""
    matches: dict[str, RuleMatch] = {}
    for number, failed in enumerate(run.calls):
        if failed.error is None or not _is_unknown(failed) or failed.label in matches:
            continue
        nearby = run.calls[number + 1 : number + 1 + MAX_TRIES]
        # What was done before with the same files may be other work, unless it only reads them.
        if not failed.command or failed.command.is_reader:
            nearby = (*nearby, *reversed(run.calls[:number]))
        other = next(
            (c for c in nearby if not c.error and c.label != failed.label and _does_the_same(run, failed, c)), None
        )
        if other is not None and not _is_unsafe(other):
            matches[failed.label] = _make_match(run, failed, other)
        elif other is None and failed.command and failed.command.program in _USUAL and not run.succeeded:
            matches[failed.label] = _of_usual(run, failed, _USUAL[failed.command.program])
        elif other is None and not failed.command and (match := _of_missing_tool(run, failed)):
            matches[failed.label] = match
    if match := _of_several_tools(run, set(matches)):
        matches[match.trigger] = match
    for match in _of_missing_programs(run):
        matches.setdefault(match.trigger, match)
    return list({match.trigger: match for match in reversed(matches.values())}.values())[::-1]


def _is_unknown(call: RunCall) -> bool:
    assert call.error is not None
    if call.command is None:
        # A query or code may itself name a function that does not exist.
        return call.error.has(ErrorKind.UNKNOWN_NAME) and not code_of(call)
    output = call.output[:2000]
    lines = [line for line in output.splitlines() if _NOT_FOUND.search(line)]
    return any(re.search(rf"\b{re.escape(call.command.program)}\b|No module named|code", line) for line in lines) and (
        call.error.has(ErrorKind.UNKNOWN_NAME)
        or "127" in output
        or re.search(rf"No module named '?{re.escape((*call.command.arguments, '-', '-')[1])}", output) is not None
    )


def _does_the_same(run: ReadRun, failed: RunCall, other: RunCall) -> bool:
    if failed.command and other.command:
        if other.command.is_reader != failed.command.is_reader:
            return False
        words = {word for word in failed.command.arguments if not word.startswith("-") and len(word) > 1}
        same_program = re.search(rf"\b{re.escape(failed.command.program)}\d?\b", other.command.text) is not None
        return same_program or not words.isdisjoint(other.command.arguments)
    if failed.command or other.command:
        return False
    # What a third tool was given too is what the run is about, not what these two do.
    third = [call for call in run.calls if call.name not in (failed.name, other.name)]
    values = {value for value in _values_of(failed) if len(value) > 2}
    return not (values - {value for call in third for value in _values_of(call)}).isdisjoint(_values_of(other))


def _values_of(call: RunCall) -> set[str]:
    return {str(value) for group in call.leaves.values() for value in group}


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


def _make_match(run: ReadRun, failed: RunCall, other: RunCall) -> RuleMatch:
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


def _of_usual(run: ReadRun, failed: RunCall, usual: str) -> RuleMatch:
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


def _of_several_tools(run: ReadRun, explained: set[str]) -> RuleMatch | None:
    """Describe tools that a failed run called although none of them exists, where nothing else says so."""
    missing = {
        call.name: call
        for call in reversed(run.calls)
        if call.error and not call.command and _is_unknown(call) and is_general(code(call.name))
    }
    worked = {call.name for call in run.calls if not call.error}
    names = sorted(missing.keys() - explained - worked)
    if not run.failed or not MIN_MISSES <= len(names) <= MAX_NAMED:
        return None
    first, last = sorted((missing[name] for name in names), key=lambda call: call.index)[:: len(names) - 1]
    return RuleMatch(
        rule="unknown_name",
        trigger=f"When about to plan with {listed([code(name) for name in names], last='or')} in this environment",
        guideline=(
            "Do without these tools: they do not exist here. Plan with the tools on offer, and say which part of the "
            "request none of them can do."
        ),
        avoid="Drawing a conclusion that rests on what the missing tools would have answered.",
        rationale=(
            f"{len(names)} tools that do not exist were called, first {code(first.name)} at step {first.index}, and "
            f"nothing was called in their place. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.8,
        citations=tuple(run.cite(call.step, call.error.text) for call in (first, last) if call.error),
        tools=tuple(names),
    )


def _of_missing_programs(run: ReadRun) -> list[RuleMatch]:
    """Describe programs that shell commands call again and again, though they are not installed."""
    wanted: dict[str, list[RunCall]] = {}
    for call in run.calls:
        match = _NO_PROGRAM.search(call.output[:MAX_ANSWER_CHARS]) if call.command and call.error else None
        if match:
            wanted.setdefault(match[1] or match[2], []).append(call)
    matches = []
    for name, calls in wanted.items():
        later = [c for c in run.calls if c.index > calls[-1].index and not c.error and name in code_of(c).split()]
        # Commands such as `find -exec sh -c` may keep silent about it.
        silent = [c for c in later if run.failed and not c.answer.strip()]
        is_found = len(later) > len(silent)
        if len(calls) + len(silent) < MIN_MISSES or is_found or name in _USUAL or not is_general(code(name)):
            continue
        end = (
            f"and was not found; {len(silent)} more commands with it answered nothing"
            if silent
            else "and was never found"
        )
        matches.append(
            RuleMatch(
                rule="unknown_name",
                trigger=f"When about to run {code(name)} in this environment",
                guideline=f"Do without {code(name)}: it is not installed here. Use a program that is.",
                avoid=f"Trying {code(name)} again with other options.",
                rationale=(
                    f"{code(name)} was called {times(len(calls))}, first at step {calls[0].index}, {end}. {run.ending}"
                ),
                polarity="mixed",
                confidence=0.75,
                citations=tuple(run.cite(call.step, call.error.text) for call in calls[:2] if call.error),
                tools=(calls[0].name,),
            )
        )
    return matches


def _of_misspelt(run: ReadRun, failed: RunCall, right: str) -> RuleMatch:
    assert failed.error is not None
    wrong = code(failed.name)
    return RuleMatch(
        rule="unknown_name",
        trigger=f"When about to call {wrong}",
        guideline=f"Call {code(right)} instead: there is no tool {wrong} here.",
        avoid=f"Trying {wrong} again.",
        rationale=(
            f'At step {failed.index} {wrong} was answered with "{failed.error.shape}"; {code(right)} is the tool on '
            f"offer with the nearest name. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.75,
        citations=(run.cite(failed.step, failed.error.text),),
        tools=(failed.name, right),
    )


def _of_missing_tool(run: ReadRun, failed: RunCall) -> RuleMatch | None:
    """Describe a tool that does not exist and was called again and again, and name those that do."""
    assert failed.error is not None
    calls = [call for call in run.calls if call.name == failed.name]
    if any(not call.error or not _is_unknown(call) for call in calls):
        return None
    named = find_alternatives(failed.output)
    near = get_close_matches(
        failed.name, (*(named.names if named else ()), *run.episode.tools), n=1, cutoff=MIN_LIKENESS
    )
    if near and near[0] != failed.name and not run.succeeded and not is_harmful(near[0]):
        return _of_misspelt(run, failed, near[0]) if is_general(code(failed.name) + code(near[0])) else None
    # A single miss counts if a failed run ended without another call that worked or missed.
    others = [call for call in run.calls if call.name != failed.name]
    went_on = any(_is_unknown(call) if call.error else call.index > failed.index for call in others)
    if len(calls) < MIN_MISSES and (went_on or not run.failed):
        return None
    worked = dict.fromkeys(call.name for call in run.calls if not call.error and not call.command)
    tools = [name for name in (named.names if named else run.episode.tools) or tuple(worked) if name != failed.name]
    wrong = code(failed.name)
    if not is_general(wrong):
        return None
    does = "" if not tools or len(tools) > MAX_TOOLS else f" The tools are {listed([code(name) for name in tools])}."
    return RuleMatch(
        rule="unknown_name",
        trigger=f"When about to call {wrong}",
        guideline=f"Do not call it: there is no tool {wrong} here.{does}",
        avoid=f"Calling {wrong} again with other arguments.",
        rationale=(
            f"{wrong} was called {times(len(calls))}, first at step {failed.index}, and always answered with "
            f'"{failed.error.shape}". {run.ending}'
        ),
        polarity="mixed",
        confidence=0.8,
        citations=tuple(run.cite(call.step, call.error.text) for call in calls[:2] if call.error),
        tools=(failed.name,),
    )
