"""A program does not have the option that a command gives it."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import MAX_ANSWER_CHARS
from reflection.reflectors.rules.known_messages import MAX_CODE_CHARS
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general

MAX_FAILURES = 50
MAX_CALLS_BETWEEN = 8

# In the wordings of getopt, of find, and of the parsers of Python, Rust and Go
_REFUSED = re.compile(
    r"^(?:[\w./-]{0,40}/)?(?P<program>\w[\w.+-]{0,40}): (?:error: )?"
    r"(?:(?:invalid|unrecogni[sz]ed|illegal|unknown) (?:long )?(?:options?|predicate|arguments?|flag)|no such option)"
    r"(?: --|:)? ?['\"`‘]?(?P<option>-{0,2}[A-Za-z][\w-]{0,40})",
    re.MULTILINE | re.IGNORECASE,
)
_OPTION = re.compile(r"(?<!\S)(--?[A-Za-z][\w-]{0,40})")


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for refused options, and for the next command that did without."""
    matches: dict[str, RuleMatch] = {}
    for failed in [call for call in run.calls if call.error and call.command and code_of(call)][:MAX_FAILURES]:
        if match := _explain(run, failed):
            matches.setdefault(match.trigger, match)
    return list(matches.values())


def _explain(run: ReadRun, failed: RunCall) -> RuleMatch | None:
    text, refused = code_of(failed)[:MAX_CODE_CHARS], _REFUSED.search(failed.output[:MAX_ANSWER_CHARS])
    if refused is None:
        return None
    program = re.compile(rf"(?<![\w.-]){re.escape(refused['program'])}(?![\w-])")
    option = _written(refused["option"], text)
    tool, wrong = code(refused["program"]), code(option)
    if not option or not program.search(text) or not (is_general(tool) and is_general(wrong)):
        return None
    later = [c for c in run.calls if c.index > failed.index and c.command and program.search(code_of(c))]
    fixed = next((c for c in later if not c.error and option not in _options(c)), None)
    # The message says as much as a lesson without a command that worked.
    if fixed is None or len(run.between(failed, fixed)) > MAX_CALLS_BETWEEN:
        return None
    new = [name for name in _options(fixed) if name not in _options(failed)]
    guideline = f"Leave {wrong} out: {tool} does not have it here. See `--help` for what it has."
    if fixed.command and len(new) == 1 and is_general(code(new[0])) and not fixed.command.is_harmful:
        guideline = f"Use {code(new[0])} instead: {tool} has no {wrong} here."
    return RuleMatch(
        rule="refused_option",
        trigger=f"When about to run {tool} with {wrong}",
        guideline=guideline,
        rationale=f"At step {failed.index} {tool} did not know {wrong}; step {fixed.index} worked without it. "
        f"{run.ending}",
        polarity="mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, refused[0]), run.cite(fixed.step, new[0] if len(new) == 1 else "")),
        tools=(failed.name,),
    )


def _written(option: str, text: str) -> str:
    """Return an option as the command writes it, or "": a message may name one letter of several, without its dash."""
    given = _OPTION.findall(text)
    return next((name for name in (option, f"-{option}", f"--{option}") if name in given), "")


def _options(call: RunCall) -> list[str]:
    return _OPTION.findall(code_of(call))
