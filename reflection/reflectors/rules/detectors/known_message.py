"""A command, code or query was answered with a message that has one cause, which tells what to do."""

import re

from reflection.reflectors.rules.code_faults import MAX_OUTPUT_CHARS, code_of, next_that_ran
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.known_code_messages import OF_CODE
from reflection.reflectors.rules.known_messages import MAX_CODE_CHARS, OF_COMMANDS, KnownMessage
from reflection.reflectors.rules.known_tool_messages import OF_TOOLS
from reflection.reflectors.rules.run_view import MAX_QUOTE_CHARS, ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, times

MAX_CALLS = 50
MIN_LAST = 2


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such messages in runs that failed, or that repaired what caused them."""
    matches: dict[str, RuleMatch] = {}
    # Shells answer with more than the error, and what failed in a run that went well did no harm.
    suspects = [call for call in run.calls if code_of(call) and (call.error or (call.command and not run.succeeded))]
    for failed in suspects[:MAX_CALLS]:
        text = code_of(failed)
        if len(text) > MAX_CODE_CHARS:
            continue
        # Shells run code too, as in `python -c`.
        for known in (*OF_COMMANDS, *OF_CODE) if failed.command else OF_CODE:
            match = _read(run, failed, known, text) if known.trigger not in matches else None
            if match:
                matches[match.trigger] = match
                break
    for match in _of_tools(run):
        matches.setdefault(match.trigger, match)
    return list(matches.values())


def _of_tools(run: ReadRun) -> list[RuleMatch]:
    """Look for messages of tools that take no code, in failed runs in which the tool never worked after them."""
    failing = [c for c in run.calls if run.failed and c.error and not c.command and not code_of(c)]
    matches = []
    for failed in failing[:MAX_CALLS]:
        if run.next_success(failed) or not is_general(code(failed.name)):
            continue
        for known in OF_TOOLS:
            said = known.message.search(failed.output[:MAX_OUTPUT_CHARS])
            if said and known.shown(repr(failed.arguments)[:MAX_CODE_CHARS]):
                matches.append(_make_match(run, failed, known, said, None))
                break
    return matches


def _read(run: ReadRun, failed: RunCall, known: KnownMessage, text: str) -> RuleMatch | None:
    output = failed.output
    # A traceback has its message at the end, other answers near their start.
    said = known.message.search(output[:MAX_OUTPUT_CHARS]) or known.message.search(output[-MAX_OUTPUT_CHARS:])
    if said is None or not known.shown(text):
        return None
    fixed = next_that_ran(run.calls, failed)
    if fixed and known.message.search(fixed.output[:MAX_OUTPUT_CHARS]):
        fixed = None
    if known.repair and not (fixed and known.repair.search(code_of(fixed)) and not known.repair.search(text)):
        return None
    # A shell's message may be one error on the way among several, unless what came next shows otherwise, or the end.
    if failed.command and fixed is None and not (run.failed and _ended_with(run, known)):
        return None
    return _make_match(run, failed, known, said, fixed)


def _ended_with(run: ReadRun, known: KnownMessage) -> bool:
    """Return whether the last two commands of a run were answered with the message."""
    last = [call for call in run.calls if call.command][-MIN_LAST:]
    return len(last) == MIN_LAST and all(known.message.search(call.output[:MAX_OUTPUT_CHARS]) for call in last)


def _make_match(
    run: ReadRun, failed: RunCall, known: KnownMessage, said: re.Match[str], fixed: RunCall | None
) -> RuleMatch:
    count = sum(said[0] in call.output for call in run.calls)
    ending = f"the next one that worked is at step {fixed.index}" if fixed else "none worked after it"
    trigger, guideline, avoid = (
        text.replace("{tool}", code(failed.name)) for text in (known.trigger, known.guideline, known.avoid)
    )
    return RuleMatch(
        rule="known_message",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=f"This was answered {times(count)}, first at step {failed.index}; {ending}. {run.ending}",
        polarity="mixed",
        confidence=0.8 if fixed else 0.75,
        citations=(
            run.cite(failed.step, _line_of(said.string, said)),
            *((run.cite(fixed.step),) if fixed else ()),
        ),
        tools=(failed.name,),
    )


def _line_of(text: str, match: re.Match[str]) -> str:
    end = text.find("\n", match.end())
    line = text[text.rfind("\n", 0, match.start()) + 1 : len(text) if end < 0 else end].strip()
    # In JSON a whole traceback is one line.
    return line if len(line) <= MAX_QUOTE_CHARS else match[0].strip()
