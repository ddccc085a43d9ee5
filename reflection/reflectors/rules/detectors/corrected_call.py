"""A call failed, and a changed call of the same tool worked later: the change is the lesson."""

import re
from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import Call, RunView, is_reference, occurs
from reflection.reflectors.rules.wording import code, is_general, listed, parameter_name, with_article

MAX_CHANGED = 3
MAX_FAILURES = 50
ROUNDING = 0.005


def find(run: RunView) -> list[RuleMatch]:
    """Look for failed calls and the next successful call of the same tool."""
    matches = []
    failing = [call for call in run.calls if call.error]
    for failed in failing[:MAX_FAILURES]:
        fixed = next((c for c in run.calls if c.index > failed.index and c.name == failed.name and not c.error), None)
        if fixed and fixed.leaves != failed.leaves and (finding := _explain(run, failed, fixed)):
            matches.append(finding)
    return matches


def _explain(run: RunView, failed: Call, fixed: Call) -> RuleMatch | None:
    before, after = failed.leaves, fixed.leaves
    changed = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    if not 1 <= len(changed) <= MAX_CHANGED or not all(is_general(path) for path in changed):
        return None
    for path in changed:
        old = next((value for value in before.get(path, ()) if value not in after.get(path, ())), None)
        new = next((v for v in after.get(path, ()) if v not in before.get(path, ()) and is_reference(v)), None)
        source = _latest_source(run, new, before=fixed) if new is not None else None
        if source is None or source.name == failed.name:
            continue
        if old is not None:
            return _from_source(run, failed, fixed, path=path, old=old, source=source)
        if path in before and (amounts := _split_amounts(failed, fixed)):
            records = _latest_source(run, *after[path], before=fixed) or source
            return _spread(run, failed, fixed, path=path, amounts=amounts, source=records)
    return _from_form(run, failed, fixed, changed=changed)


def _latest_source(run: RunView, *values: Any, before: Call) -> Call | None:
    """Return the last call before another one whose answer contains all values."""
    earlier = (call for call in reversed(run.calls) if call.index < before.index)
    return next((call for call in earlier if all(occurs(value, call.answer) for value in values)), None)


def _from_source(run: RunView, failed: Call, fixed: Call, *, path: str, old: Any, source: Call) -> RuleMatch:
    """Describe a value that worked and had been returned by another tool."""
    tool, parameter, lookup = code(failed.name), parameter_name(path), code(source.name)
    assert failed.error is not None  # only failing calls come here
    known = run.source_of(old, before=failed.index) is not None or run.said_by_anyone(old, before=failed.index)
    fresh = source.index > failed.index
    avoid = ""
    if not known:
        trigger = f"When about to call {tool} with {with_article(parameter)} that no tool has returned yet"
        guideline = (
            f"Call {lookup} first and copy {parameter} from its answer. With any other value {tool} answers "
            f'"{failed.error.shape}".'
        )
        avoid = f"Making up {parameter} from the way a person describes it."
    else:
        trigger = f'When {tool} answers "{failed.error.shape}"'
        take = f"Call {lookup} and take" if fresh else "Take"
        whence = "its answer" if fresh else f"the answer of {lookup}"
        guideline = f"{take} another {parameter} from {whence} that the error does not rule out"
        if any(failed.index < turn.index < fixed.index for turn in run.turns):
            guideline += ", name the choices that are left and let the user pick"
        guideline += f"; then call {tool} again with it."
    what = "was not accepted" if known else "had come from no tool and no person"
    return RuleMatch(
        rule="corrected_call",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}": its {parameter} {what}. At step '
            f"{fixed.index} the call worked with {with_article(parameter)} that {lookup} had returned at step "
            f"{source.index}. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=0.85 if not known else 0.7,
        citations=(
            run.cite(failed.step, failed.error.text),
            run.cite(source.step, _quote_of(fixed, path, source.answer)),
            run.cite(fixed.step, _quote_of(fixed, path, source.answer)),
        ),
        tools=(failed.name, source.name),
    )


def _split_amounts(failed: Call, fixed: Call) -> str:
    """Return the numeric parameter whose sum stayed the same over more entries, or ""."""
    for path, values in fixed.leaves.items():
        old = failed.leaves.get(path, ())
        numeric = all(isinstance(value, int | float) for value in (*old, *values))
        if len(values) > len(old) >= 1 and numeric and abs(sum(values) - sum(old)) < ROUNDING:
            return path
    return ""


def _spread(run: RunView, failed: Call, fixed: Call, *, path: str, amounts: str, source: Call) -> RuleMatch:
    """Describe a sum that was spread over more entries."""
    tool, parameter, amount, lookup = (
        code(failed.name),
        parameter_name(path),
        parameter_name(amounts),
        code(source.name),
    )
    assert failed.error is not None  # only failing calls come here
    return RuleMatch(
        rule="corrected_call",
        trigger=f'When about to call {tool} with one {parameter}, or when it answers "{failed.error.shape}"',
        guideline=(
            f"Compare {amount} with what the answer of {lookup} says that {parameter} holds. If that is less, ask "
            f"the user for a second {parameter}, and give each entry its share so that the values of {amount} still "
            "add up to the total."
        ),
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}". At step {fixed.index} the call worked '
            "with the "
            f"same sum spread over {len(fixed.leaves[amounts])} entries. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=0.75,
        citations=(run.cite(failed.step, failed.error.text), run.cite(source.step), run.cite(fixed.step)),
        tools=(failed.name, source.name),
    )


def _from_form(run: RunView, failed: Call, fixed: Call, *, changed: list[str]) -> RuleMatch | None:
    """Describe a change of form in the values, if all changes can be described."""
    assert failed.error is not None  # only failing calls come here
    changes = [
        said for path in changed if (said := _change_of(path, failed.leaves.get(path, ()), fixed.leaves.get(path, ())))
    ]
    if len(changes) != len(changed):
        return None
    tool = code(failed.name)
    return RuleMatch(
        rule="corrected_call",
        trigger=f'When about to call {tool}, or when it answers "{failed.error.shape}"',
        guideline=f"In the call of {tool}, {listed(changes)}.",
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}". At step {fixed.index} the call worked '
            "after "
            f"this change and no other. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, failed.error.text), run.cite(fixed.step, _quote_of(fixed, changed[0]))),
        tools=(failed.name,),
    )


def _change_of(path: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    """Return how the form of a parameter's values changed, or "" if only their content did."""
    parameter = parameter_name(path)
    if not old:
        return f"pass {parameter}"
    if not new:
        return f"leave out {parameter}"
    first, second = _form(old[0]), _form(new[0])
    if first != second and second:
        return f"give {parameter} as {second}" + (f", not as {first}" if first else "")
    if isinstance(old[0], str) and isinstance(new[0], str) and old[0].lower() == new[0].lower():
        return f"write {parameter} in the letter case the tool uses"
    return ""


def _form(value: Any) -> str:
    if isinstance(value, int | float):
        return "a number"
    text = str(value)
    forms = {
        r"\d{4}-\d\d-\d\d": "a date in the form YYYY-MM-DD",
        r"\d{4}-\d\d-\d\dT\d\d:\d\d.*": "a time in the form YYYY-MM-DDThh:mm:ss",
        r"\d{1,2}/\d{1,2}/\d{2,4}": "a date with slashes",
        r"\d{1,2}\.\d{1,2}\.\d{2,4}": "a date with dots",
        r"\d{1,2}:\d\d(:\d\d)?": "a time in the form hh:mm",
        r"[^@\s]+@[^@\s]+\.\w+": "an e-mail address",
        r"-?\d+(\.\d+)?": "digits in a text",
        r"/\S*": "an absolute path",
    }
    return next((form for pattern, form in forms.items() if re.fullmatch(pattern, text)), "")


def _quote_of(call: Call, path: str, within: str = "") -> str:
    """Return a value of the call that can be quoted, and that occurs in `within` if given."""
    values = (value for value in call.leaves.get(path, ()) if isinstance(value, str))
    return next((value for value in values if value in within or not within), "")
