"""A call was refused with the names that would do, and one of them worked, or was never tried."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from reflection.reflectors.rules.alternatives import Alternatives, find_alternatives
from reflection.reflectors.rules.code_faults import FaultKind, code_of, read_fault
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import MAX_ANSWER_CHARS, ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_harmful
from reflection.reflectors.rules.wording import code, is_general, listed, parameter_name, times

MAX_CALLS_BETWEEN = 12
MAX_LISTED = 8
MAX_FAILURES = 50
MAX_LIKENESS = 0.8  # two commands that differ in less are one, misspelt

_OF_THE_DATA = frozenset([FaultKind.COLUMN, FaultKind.TABLE, FaultKind.FUNCTION])

_NAME = re.compile(r"--?[A-Za-z][\w-]{0,60}|[A-Za-z_][\w.$-]{0,60}")
_UNSAFE = frozenset(["force", "hard", "rm"])
_PROGRAM = re.compile(r"([\w-][\w.-]{0,40}): error: ")
_OPTION = re.compile(r"\b(?:argument|option|for) ['\"`]?(--?[A-Za-z][\w-]{0,40})")
_REFUSED = re.compile(r"['\"`]([^'\"`\n]{1,80})['\"`]|(?<=: )([\w.-]{1,60})")


@dataclass(frozen=True, kw_only=True)
class _RefusedName:
    """A refused call: what it named wrongly (`path` of the argument, "" inside code), and what its answer names."""

    call: RunCall
    wrong: str
    path: str
    alternatives: Alternatives


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for refusals that name alternatives, one lesson for each tool and argument."""
    matches: dict[str, RuleMatch] = {}
    for failed in [call for call in run.calls if call.error and not call.is_edit][:MAX_FAILURES]:
        alternatives = find_alternatives(failed.output)
        refusal = _read_refusal(failed, alternatives) if alternatives else None
        if refusal is None:
            continue
        later = [c for c in run.calls if c.index > failed.index and c.name == failed.name and not c.error]
        fixed = next((call for call in later if _taken(refusal, call)), None)
        if fixed and len(run.between(failed, fixed)) > MAX_CALLS_BETWEEN:
            continue
        # In a run that went on well without them, the names were no help.
        if fixed is None and (not run.failed or later):
            continue
        if match := _explain(run, refusal, fixed):
            matches.setdefault(match.trigger, match)
    return list(matches.values())


def _read_refusal(failed: RunCall, alternatives: Alternatives) -> _RefusedName | None:
    assert failed.error is not None
    text = code_of(failed)
    fault = read_fault(failed) if text else None
    # Names that the code itself was to define say nothing about the next code.
    if failed.error.has(ErrorKind.TRANSIENT) or (fault and fault.kind not in _OF_THE_DATA):
        return None
    if not text and failed.error.has(ErrorKind.UNKNOWN_NAME):
        return None
    quotations = _REFUSED.findall(failed.output[:MAX_ANSWER_CHARS])
    # What is in quotation marks is meant sooner than what follows a colon.
    said = [quoted for quoted, _ in quotations if quoted] + [bare for _, bare in quotations if bare]
    if text:
        wrong = next((name for name in said if name not in alternatives.names and _stands_in(name, text)), "")
        return _RefusedName(call=failed, wrong=wrong, path="", alternatives=alternatives) if wrong else None
    for path, values in sorted(failed.leaves.items()):
        value = str(values[0])
        name = path.removesuffix("[]").rpartition(".")[2]
        is_meant = value in said or _stands_in(value, failed.error.text) or _stands_in(name, failed.output[:300])
        if value not in alternatives.names and is_meant:
            return _RefusedName(call=failed, wrong=value, path=path, alternatives=alternatives)
    return None


def _stands_in(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _taken(refusal: _RefusedName, later: RunCall) -> str:
    """Return the alternative that a later call took in place of the refused name, or ""."""
    if refusal.path:
        values = {str(value) for value in later.leaves.get(refusal.path, ())}
        return next((name for name in refusal.alternatives.names if name in values), "")
    before, after = code_of(refusal.call), code_of(later)
    if _stands_in(refusal.wrong, after):
        return ""
    names = refusal.alternatives.names
    return next((name for name in names if _stands_in(name, after) and not _stands_in(name, before)), "")


def _explain(run: ReadRun, refusal: _RefusedName, fixed: RunCall | None) -> RuleMatch | None:
    taken = _taken(refusal, fixed) if fixed else ""
    words = _say_of_argument(refusal) if refusal.path else _say_of_code(refusal, taken=taken)
    if words is None:
        return None
    return _make_match(run, refusal, fixed, trigger=words[0], guideline=words[1], taken=taken)


def _say_of_code(refusal: _RefusedName, *, taken: str) -> tuple[str, str] | None:
    """Return trigger and guideline for a name in code or a command: that of an option, a column or a function."""
    names, quote = refusal.alternatives.names, refusal.alternatives.quote
    option, program = _OPTION.search(quote), _PROGRAM.search(quote)
    tool = code(program[1] if program else refusal.call.label)
    if option and refusal.alternatives.are_all and _can_be_listed(names):
        values = listed([code(name) for name in names], last="or")
        return f"When about to use {code(option[1])} of {tool}", f"Give it one of {values}: it takes no other."
    if not taken and len(names) != 1:
        return None
    wrong, right = refusal.wrong, taken or names[0]
    if not (_is_name(wrong) and _is_name(right)) or is_harmful(right) or right.lstrip("-") in _UNSAFE:
        return None
    if refusal.call.command and SequenceMatcher(None, wrong, right).ratio() > MAX_LIKENESS and wrong[0] != "-":
        return None
    return (
        f"When about to use {code(wrong)} with {tool}",
        f"Use {code(right)} instead: {code(wrong)} does not exist here.",
    )


def _say_of_argument(refusal: _RefusedName) -> tuple[str, str] | None:
    """Return trigger and guideline for the value of an argument."""
    assert refusal.call.error is not None
    names, shape = refusal.alternatives.names, refusal.call.error.shape
    tool, parameter = code(refusal.call.label), parameter_name(refusal.path)
    if refusal.alternatives.are_all and _can_be_listed(names):
        values = listed([code(name) for name in names], last="or")
        return f"When about to call {tool} with {parameter}", f"Give {parameter} as one of {values}: it takes no other."
    if not says_something(shape) or is_harmful(refusal.call.name):
        return None
    return (
        f'When {tool} answers "{shape}" and names others',
        f"Take {parameter} from the names in that answer, exactly as written there, and call {tool} again.",
    )


def _can_be_listed(names: tuple[str, ...]) -> bool:
    return 1 < len(names) <= MAX_LISTED and all(map(_is_name, names))


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and is_general(code(text))


def _make_match(
    run: ReadRun, refusal: _RefusedName, fixed: RunCall | None, *, trigger: str, guideline: str, taken: str
) -> RuleMatch:
    failed, quote = refusal.call, refusal.alternatives.quote
    tries = sum(call.name == failed.name and bool(call.error) for call in run.calls)
    if fixed:
        done = f"step {fixed.index} took one of them and worked"
    else:
        done = f"the run took none of them; {code(failed.label)} failed {times(tries)} in all"
    return RuleMatch(
        rule="named_alternative",
        trigger=trigger,
        guideline=guideline,
        avoid="Sending another guess when the answer names what is there.",
        rationale=(
            f"{code(failed.label)} was refused at step {failed.index}, with the names that it takes; {done}. "
            f"{run.ending}"
        ),
        polarity="mixed",
        confidence=0.85 if fixed else 0.75,
        citations=(run.cite(failed.step, quote), *((run.cite(fixed.step, taken),) if fixed else ())),
        tools=(failed.name,),
    )
