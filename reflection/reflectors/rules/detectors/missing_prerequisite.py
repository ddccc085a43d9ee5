"""A call failed, another call came, and then the same call worked: the other one has to come first."""

import json
import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, ErrorShape
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_harmful, words_of
from reflection.reflectors.rules.wording import code, is_general, listed

MAX_FAILURES = 50
MIN_STEM_CHARS = 4
MIN_OBJECT_CHARS = 3
OBJECT = " with the thing that the condition names"

# With one of these errors and no mention of the other call, something else than that call may have helped.
_OTHER_CAUSES = (ErrorKind.NOT_FOUND, ErrorKind.FORM, ErrorKind.MISSING, ErrorKind.UNAVAILABLE, ErrorKind.REFUSED)
# Values that mean the same in every run: off and on, none and all. They stand for booleans and their decimals, too.
_ENDS_OF_SCALES = (0, 1)
# A message with one of these words says what has to be so; another says what is so: "user not authenticated".
_DEMAND = re.compile(r"\b(?:first|before|must|needs?|ha(?:s|ve) to|requires?|until|unless)\b", re.IGNORECASE)
_GENERIC = frozenset("get set list call make check find file tool user with from that this data name".split())  # noqa: SIM905


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for failed calls that worked later with the same arguments."""
    failing = [call for call in run.calls if call.error and call.command is None and not call.is_edit]
    return [match for failed in failing[:MAX_FAILURES] if (match := _explain(run, failed))]


def _explain(run: ReadRun, failed: RunCall) -> RuleMatch | None:
    # Only failing calls come here.
    assert failed.error is not None
    fixed, is_same = run.next_same(failed), True
    if fixed is None:
        fixed, is_same = run.next_success(failed), False
    if fixed is None or failed.error.has(ErrorKind.TRANSIENT):
        return None
    others = [c for c in run.between(failed, fixed) if not c.error and c.name != failed.name and c.command is None]
    first = _pick(failed, others)
    # Tests that pass after an edit tell only about that edit.
    if first is None or is_harmful(first.name) or "editor" in words_of(first.name) or first.is_edit:
        return None
    is_usual = _is_usual(run, failed, first.name)
    if not is_same and not (is_usual and speaks_of(failed.error.text, first.name) and not first.only_reads):
        # The changed arguments may have been what helped.
        return None
    how = _how_to_call(run, failed, first, others)
    return _make_match(run, failed, how[0], fixed, how=how[1], is_usual=is_usual) if how else None


def _is_usual(run: ReadRun, failed: RunCall, first: str) -> bool:
    """Return whether another run of the family shows the same, and the tool never worked there without the other."""
    worked = [other for other in run.family if any(c.name == failed.name and not c.error for c in other.calls)]
    return bool(worked) and all(_came_before(other, first, failed.name) for other in worked)


def _came_before(run: ReadRun, first: str, name: str) -> bool:
    """Return whether a run called a tool with success before the first time that another one worked."""
    used = next(c for c in run.calls if c.name == name and not c.error)
    return any(c.name == first and not c.error and c.index < used.index for c in run.calls)


def _how_to_call(run: ReadRun, failed: RunCall, first: RunCall, others: list[RunCall]) -> tuple[RunCall, str] | None:
    """Return the call that helped and its arguments in words, as far as they belong to the tool and not to the run.

    None if the call concerns another thing than the error names, or had been made before without help and what has
    changed since cannot be said.
    """
    assert failed.error is not None
    if names_object(failed.error):
        concerned = [c for c in others if c.name == first.name and concerns(failed.error, c)]
        return (concerned[-1], OBJECT) if concerned else None
    before = [c for c in run.calls if c.name == first.name and c.index < failed.index and not c.error]
    constants = {
        name: value
        for name, value in first.arguments.items()
        if is_general(name) and (value in _ENDS_OF_SCALES or _is_named(value, failed.error))
    }
    changed = [name for name in sorted(constants) if before and before[-1].arguments.get(name) != constants[name]]
    if before and not changed:
        return None
    arguments = [
        f"{code(name)} {code(json.dumps(value).strip(chr(34)))}"
        for name, value in sorted(constants.items())
        if name in changed or not isinstance(value, bool)
    ]
    return first, f" with {listed(arguments)}" if arguments else ""


def _is_named(value: object, error: ErrorShape) -> bool:
    """Return whether a value is a plain word that the error uses."""
    return isinstance(value, str) and value.isalpha() and re.search(rf"\b{value}\b", error.text) is not None


def names_object(error: ErrorShape) -> bool:
    """Return whether the error names the thing that something has to be done with: "take the … first"."""
    return re.search(r"\b(?:the|a|an) …", error.shape) is not None


def concerns(error: ErrorShape, call: RunCall) -> bool:
    """Return whether a call was about the thing that the error names."""
    values = [value for group in call.leaves.values() for value in group if isinstance(value, str)]
    return any(len(value) >= MIN_OBJECT_CHARS and value.lower() in error.text.lower() for value in values)


def _pick(failed: RunCall, others: list[RunCall]) -> RunCall | None:
    """Return the one call that the error speaks of, or the only one that can have changed something."""
    assert failed.error is not None
    by_name = {call.name: call for call in others}
    if any(speaks_of(failed.error.text, name) for name in by_name):
        return by_name.get(best_named(failed.error.text, list(by_name)))
    changing = {call.name: call for call in others if not call.only_reads}
    if len(changing) != 1 or len(others) > 2 or (failed.error.has(*_OTHER_CAUSES)):
        return None
    return next(iter(changing.values()))


def speaks_of(text: str, name: str) -> int:
    """Return how many words of a tool's name a message uses: "pedal needs to be pressed" two of `pressPedal`."""
    spoken = re.sub(r"\b(?:logged|log(?:ging)?) in\b", "login", text.lower())
    words = [word for word in words_of(name) if len(word) >= MIN_STEM_CHARS and word not in _GENERIC]
    stems = [word[: max(MIN_STEM_CHARS, len(word) - 2)] for word in words]
    return sum(re.search(rf"\b{re.escape(stem)}", spoken) is not None for stem in stems)


def best_named(text: str, names: list[str]) -> str:
    """Return the tool whose name a message uses most words of, or "" if there is none or more than one."""
    scores = {name: speaks_of(text, name) for name in names}
    most = max(scores.values(), default=0)
    best = [name for name in names if scores[name] == most]
    return best[0] if most and len(best) == 1 else ""


def put_first(failed: RunCall, other: str, *, how: str = "", is_usual: bool = True) -> tuple[str, str, str]:
    """Return trigger, guideline and avoid of the lesson that another tool comes first, called in the way of `how`.

    Unless this is usual, the lesson is only for the error, because the tool may work without the other one elsewhere.
    """
    assert failed.error is not None
    tool, shape = code(failed.name), failed.error.shape
    if failed.error.has(ErrorKind.PRECONDITION) and _DEMAND.search(shape):
        trigger = f'When about to call {tool} and this condition is not met yet: "{shape}"'
    elif failed.error.has(ErrorKind.PRECONDITION):
        trigger = f'When about to call {tool} while this is the case: "{shape}"'
    elif is_usual:
        trigger = f'When about to call {tool} before {other}, or when it answers "{shape}"'
    else:
        trigger = f'When {tool} answers "{shape}"'
    done = " Skip this if it has already been done." if how == OBJECT else ""
    return (
        trigger,
        f"First call {other}{how}, then {tool}.{done}",
        f"Calling {tool} again before {other} has been called{how}.",
    )


def _make_match(
    run: ReadRun, failed: RunCall, first: RunCall, fixed: RunCall, *, how: str, is_usual: bool
) -> RuleMatch:
    assert failed.error is not None
    tool, other = code(failed.name), code(first.name)
    trigger, guideline, avoid = put_first(failed, other, how=how, is_usual=is_usual)
    return RuleMatch(
        rule="missing_prerequisite",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}". After {other} at step {first.index} it '
            f"worked{' with the same arguments' if fixed.same_as(failed) else ''} at step {fixed.index}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.9 if speaks_of(failed.error.text, first.name) else 0.75,
        citations=(
            run.cite(failed.step, failed.error.text),
            run.cite(first.step, first.quotable),
            run.cite(fixed.step, fixed.quotable),
        ),
        tools=(failed.name, first.name),
    )
