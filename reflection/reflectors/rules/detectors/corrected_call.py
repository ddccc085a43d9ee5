"""A call failed, and the same tool took a changed call later: the change is the lesson."""

import re
from typing import Any

from reflection.reflectors.rules.finding import Finding
from reflection.reflectors.rules.offers import find_presses
from reflection.reflectors.rules.run_view import Call, RunView, is_reference
from reflection.reflectors.rules.wording import code, is_general, listed

MAX_CHANGED = 3


def find(run: RunView) -> list[Finding]:
    """Look for a failing call and the first later call of that tool that worked."""
    by_label = {press.call.index for press in find_presses(run)}
    findings = []
    for failed in run.calls:
        if failed.error is None or failed.index in by_label:
            continue
        fixed = next((c for c in run.calls if c.index > failed.index and c.name == failed.name and not c.error), None)
        if fixed and fixed.leaves != failed.leaves and (finding := _explain(run, failed, fixed)):
            findings.append(finding)
    return findings


def _explain(run: RunView, failed: Call, fixed: Call) -> Finding | None:
    before, after = failed.leaves, fixed.leaves
    changed = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    if not 1 <= len(changed) <= MAX_CHANGED or not all(is_general(path) for path in changed):
        return None
    for path in changed:
        new = next((v for v in after.get(path, ()) if v not in before.get(path, ()) and is_reference(v)), None)
        source = run.source_of(new, before=fixed.index) if new is not None else None
        if source is not None and source.name != failed.name:
            old = next((v for v in before.get(path, ()) if v not in after.get(path, ())), None)
            return _from_source(run, failed, fixed, path=path, old=old, source=source)
    return _from_form(run, failed, fixed, changed=changed)


def _from_source(run: RunView, failed: Call, fixed: Call, *, path: str, old: Any, source: Call) -> Finding:
    """The value that worked had been returned by another tool."""
    tool, parameter, lookup = code(failed.name), code(path), code(source.name)
    assert failed.error is not None  # only failing calls come here
    known = run.source_of(old, before=failed.index) is not None or run.said_by_anyone(old, before=failed.index)
    if source.index > failed.index:
        trigger = f"Before calling {tool} with a {parameter} that no tool has returned yet"
        guideline = (
            f"Call {lookup} first and copy {parameter} from its answer. With any other value {tool} answers "
            f'"{failed.error.shape}".'
        )
        avoid = f"Making up {parameter} from the way a person describes it."
    else:
        trigger = f'When {tool} answers "{failed.error.shape}"'
        guideline = (
            f"Take another {parameter} from those that {lookup} returned and call {tool} again with it; leave the other "
            "arguments as they are."
        )
        if any(failed.index < turn.index < fixed.index for turn in run.turns):
            guideline += " Name the remaining choices and let the user pick before the second call."
        avoid = ""
    what = "had not been returned by any tool nor given by anybody" if not known else "was not accepted"
    return Finding(
        rule="corrected_call",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}": its {parameter} {what}. At step {fixed.index} '
            f"the same call worked with a {parameter} that {lookup} had returned at step {source.index}. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=0.85 if source.index > failed.index else 0.7,
        citations=(
            run.cite(failed.step, failed.error.text),
            run.cite(source.step),
            run.cite(fixed.step, _quote_of(fixed, path)),
        ),
        tools=(failed.name, source.name),
    )


def _from_form(run: RunView, failed: Call, fixed: Call, *, changed: list[str]) -> Finding | None:
    """The value stayed in the agent's hands: say how its form changed, where that can be said."""
    assert failed.error is not None  # only failing calls come here
    changes = [
        said for path in changed if (said := _change_of(path, failed.leaves.get(path, ()), fixed.leaves.get(path, ())))
    ]
    if len(changes) != len(changed):
        return None
    tool = code(failed.name)
    return Finding(
        rule="corrected_call",
        trigger=f'When calling {tool}, or when it answers "{failed.error.shape}"',
        guideline=f"In the call of {tool}, {listed(changes)}.",
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}". At step {fixed.index} the call worked after '
            f"this change and no other. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, failed.error.text), run.cite(fixed.step, _quote_of(fixed, changed[0]))),
        tools=(failed.name,),
    )


def _change_of(path: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    """Return how the values of one parameter changed in form, "" when only their content did."""
    parameter = code(path)
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


def _quote_of(call: Call, path: str) -> str:
    """Return a value of the call that stands word for word in the run."""
    return next((value for value in call.leaves.get(path, ()) if isinstance(value, str)), "")
