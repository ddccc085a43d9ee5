"""A call failed, another call came, and then the same call worked: the other one has to come first."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.tools import is_harmful, words_of
from reflection.reflectors.rules.wording import code

MAX_FAILURES = 50
MIN_STEM_CHARS = 4

# With one of these errors and no mention of the other call, something else than that call may have helped.
_OTHER_CAUSES = (ErrorKind.NOT_FOUND, ErrorKind.FORM, ErrorKind.MISSING, ErrorKind.UNAVAILABLE, ErrorKind.REFUSED)
_GENERIC = frozenset("get set list call make check find file tool user with from that this data name".split())  # noqa: SIM905


def find(run: RunView) -> list[RuleMatch]:
    """Look for failed calls that worked later with the same arguments."""
    failing = [call for call in run.calls if call.error and call.command is None and not call.is_edit]
    return [match for failed in failing[:MAX_FAILURES] if (match := _explain(run, failed))]


def _explain(run: RunView, failed: Call) -> RuleMatch | None:
    assert failed.error is not None  # only failing calls come here
    fixed, is_same = run.next_same(failed), True
    if fixed is None:
        fixed, is_same = run.next_success(failed), False
    if fixed is None or failed.error.has(ErrorKind.TRANSIENT):
        return None
    others = [c for c in run.between(failed, fixed) if not c.error and c.name != failed.name and c.command is None]
    first = _pick(failed, others)
    if first and not is_same and not (speaks_of(failed.error.text, first.name) and not first.only_reads):
        return None
    return _make_match(run, failed, first, fixed) if first and not is_harmful(first.name) else None


def _pick(failed: Call, others: list[Call]) -> Call | None:
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
    said = re.sub(r"\b(?:logged|log(?:ging)?) in\b", "login", text.lower())
    words = [word for word in words_of(name) if len(word) >= MIN_STEM_CHARS and word not in _GENERIC]
    stems = [word[: max(MIN_STEM_CHARS, len(word) - 2)] for word in words]
    return sum(re.search(rf"\b{re.escape(stem)}", said) is not None for stem in stems)


def best_named(text: str, names: list[str]) -> str:
    """Return the tool whose name a message uses most words of, or "" if there is none or more than one."""
    scores = {name: speaks_of(text, name) for name in names}
    most = max(scores.values(), default=0)
    best = [name for name in names if scores[name] == most]
    return best[0] if most and len(best) == 1 else ""


def put_first(failed: Call, other: str) -> tuple[str, str, str]:
    """Return trigger, guideline and avoid of the lesson that another tool comes first."""
    assert failed.error is not None
    tool = code(failed.name)
    return (
        f'When about to call {tool}, or when it answers "{failed.error.shape}"',
        f"Call {other} first, and {tool} after that.",
        f"Sending {tool} again before {other} has been called.",
    )


def _make_match(run: RunView, failed: Call, first: Call, fixed: Call) -> RuleMatch:
    assert failed.error is not None
    tool, other = code(failed.name), code(first.name)
    trigger, guideline, avoid = put_first(failed, other)
    return RuleMatch(
        rule="missing_prerequisite",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}". After {other} at step {first.index} it '
            f"worked{' with the same arguments' if fixed.same_as(failed) else ''} at step {fixed.index}. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=0.9 if speaks_of(failed.error.text, first.name) else 0.75,
        citations=(
            run.cite(failed.step, failed.error.text),
            run.cite(first.step, first.quotable),
            run.cite(fixed.step, fixed.quotable),
        ),
        tools=(failed.name, first.name),
    )
