"""A call failed, and the same tool worked with one argument changed: the change is the lesson, if it explains it."""

import re
from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, ToolError, shape_of
from reflection.reflectors.rules.run_view import Call, RunView, is_reference
from reflection.reflectors.rules.tools import is_harmful, is_talk, words_of
from reflection.reflectors.rules.value_forms import change_of_form, form_of_schema
from reflection.reflectors.rules.wording import code, is_general, parameter_name, with_article

MAX_FAILURES = 50
MAX_CALLS_BETWEEN = 12
MAX_FREE_TEXT_CHARS = 120
MIN_ID_NUMBER = 100

# Errors about the state of things, which no form of an argument explains.
_OF_STATE = (ErrorKind.UNAVAILABLE, ErrorKind.TRANSIENT, ErrorKind.REFUSED)
_ID_WORDS = frozenset(["id", "ids", "number", "no"])
_AS_LIST = "as a list, even for a single entry"
_UNSPECIFIC = frozenset("id ids name number value key input type code".split())  # noqa: SIM905
FREE_TEXT = frozenset("input text content query title name description message body command".split())  # noqa: SIM905


def find(run: RunView) -> list[RuleMatch]:
    """Look for failed calls and the next call of the same tool that worked."""
    matches = []
    for failed in [c for c in run.calls if c.error and c.command is None and not c.is_edit][:MAX_FAILURES]:
        fixed = run.next_success(failed)
        is_near = fixed is not None and len(run.between(failed, fixed)) <= MAX_CALLS_BETWEEN
        match = _of_schema(run, failed, fixed if is_near else None)
        if match is None and fixed is not None and is_near:
            match = _explain(run, failed, fixed)
        if match:
            matches.append(match)
    return matches


def _explain(run: RunView, failed: Call, fixed: Call) -> RuleMatch | None:
    assert failed.error is not None  # only failing calls come here
    before, after = failed.leaves, fixed.leaves
    changed = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    if len(changed) == 2 and changed[1] == f"{changed[0]}[]":
        is_list = changed[1] in after
        return _of_form(
            run, failed, fixed, path=changed[0], form=_AS_LIST if is_list else "as a single value, not as a list"
        )
    named = [path for path in changed if names_parameter(failed.error, path)]
    if not changed or not (len(changed) == 1 or len(named) == 1):
        return None  # several changes, and the error names none: any of them may have helped
    path = named[0] if len(named) == 1 else changed[0]
    if not is_general(parameter_name(path)):
        return None
    old, new = before.get(path, ()), after.get(path, ())
    if not old or not new:
        return _of_presence(run, failed, fixed, path=path)
    if failed.error.has(*_OF_STATE) and not failed.error.has(ErrorKind.FORM, ErrorKind.MISSING, ErrorKind.NOT_FOUND):
        return None
    if match := _of_source(run, failed, fixed, path=path, old=old[0], new=new[0]):
        return match
    helped = [c for c in run.between(failed, fixed) if not c.error and not c.only_reads and c.name != failed.name]
    if not named and (helped or failed.error.kinds == {ErrorKind.PRECONDITION}):
        return None  # what came in between may have helped
    form = change_of_form(old, new, error=failed.error.text)
    return _of_form(run, failed, fixed, path=path, form=form) if form else None


def names_parameter(error: ToolError, path: str) -> bool:
    """Return whether the error speaks of a parameter, by all the telling words of its name."""
    words = [word for word in words_of(path.removesuffix("[]").rpartition(".")[2]) if word not in _UNSPECIFIC]
    said = f"{error.field} {error.text}".lower()
    return bool(words) and all(re.search(rf"\b{re.escape(word)}", said.replace("_", " ")) for word in words)


def _of_schema(run: RunView, failed: Call, fixed: Call | None) -> RuleMatch | None:
    """Describe what a tool's schema asks for, whether the run gave it in the end or not."""
    assert failed.error is not None
    field = failed.error.field.partition(".")[0]
    if not field:
        return None
    tool, parameter, said = code(failed.name), code(field), shape_of(failed.error.text)
    is_missing = said.lower() == "field required"
    form = form_of_schema(failed.error.text)
    asked = f"Give {parameter} {form}." if form else f'Give {parameter} as the schema of {tool} asks: "{said}".'
    return RuleMatch(
        rule="changed_argument",
        trigger=f"When about to call {tool}{f' without {parameter}' if is_missing else ''}",
        guideline=(f"Pass {parameter}: the schema of {tool} requires it." if is_missing else asked),
        avoid=f"Sending {tool} again unchanged, or giving up, after a validation error.",
        rationale=(
            f'At step {failed.index} {tool} refused its {parameter}: "{said}". '
            f"{f'It worked at step {fixed.index}' if fixed else 'The run did not correct it'}. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed" if fixed else "avoid",
        confidence=0.8,
        citations=(run.cite(failed.step, failed.error.text), *((run.cite(fixed.step),) if fixed else ())),
        tools=(failed.name,),
    )


def _of_presence(run: RunView, failed: Call, fixed: Call, *, path: str) -> RuleMatch | None:
    """Describe an argument that was added or left out."""
    assert failed.error is not None
    added = path in fixed.leaves
    if not (names_parameter(failed.error, path) or failed.error.has(ErrorKind.MISSING, ErrorKind.FORM)):
        return None
    tool, parameter = code(failed.name), parameter_name(path)
    if added:
        guideline = f'Pass {parameter} in the first call: without it {tool} answers "{failed.error.shape}".'
    else:
        guideline = f'Leave out {parameter}: with it {tool} answers "{failed.error.shape}".'
    return _match(
        run,
        failed,
        fixed,
        trigger=f"When about to call {tool} {'without' if added else 'with'} {parameter}",
        guideline=guideline,
        change=f"with {parameter} {'added' if added else 'left out'}",
        path=path,
        confidence=0.8 if names_parameter(failed.error, path) else 0.7,
    )


def _of_form(run: RunView, failed: Call, fixed: Call, *, path: str, form: str) -> RuleMatch:
    assert failed.error is not None
    tool, parameter = code(failed.name), parameter_name(path)
    return _match(
        run,
        failed,
        fixed,
        trigger=f'When about to call {tool}, or when it answers "{failed.error.shape}"',
        guideline=f"Give {parameter} {form}.",
        change=f"with {parameter} {form.partition(', not ')[0]}",
        path=path,
        confidence=0.85,
    )


def _of_source(run: RunView, failed: Call, fixed: Call, *, path: str, old: Any, new: Any) -> RuleMatch | None:
    """Describe a value that another tool had returned, where the first one had come from nowhere."""
    assert failed.error is not None
    is_number = isinstance(new, int) and new >= MIN_ID_NUMBER and bool(set(words_of(path)) & _ID_WORDS)
    is_code = isinstance(new, str) and re.fullmatch(r"[A-Z]{2,5}", new) is not None
    if not (is_reference(new) or is_code or is_number) or not failed.error.has(ErrorKind.NOT_FOUND, ErrorKind.FORM):
        return None
    if path in FREE_TEXT or str(old).lower() == str(new).lower():
        return None
    source = run.latest_source(new, before=fixed.index)
    known = run.source_of(old, before=failed.index)
    if source and (is_number or is_harmful(source.name)) and not _returns(source, path):
        return None
    if source is None or source.name == failed.name or known or is_talk(source.name):
        return None
    if run.said_by_anyone(new, before=failed.index):
        return None
    tool, parameter, lookup = code(failed.name), parameter_name(path), code(source.label)
    return _match(
        run,
        failed,
        fixed,
        trigger=f"When about to call {tool} with {with_article(parameter)} that no tool has returned yet",
        guideline=(
            f"Copy {parameter} from the answer of {lookup}; before that call there is none."
            if is_harmful(source.name)
            else f"Call {lookup} first and copy {parameter} from its answer. With any other value {tool} answers "
            f'"{failed.error.shape}".'
        ),
        avoid=f"Making up {parameter}, or deriving it from the way a person describes it.",
        change=f"with {with_article(parameter)} that {lookup} had returned at step {source.index}",
        path=path,
        confidence=0.85,
        source=source,
    )


def _returns(source: Call, path: str) -> bool:
    """Return whether an answer has a member of the parameter's name, or an `id`."""
    name = path.removesuffix("[]").rpartition(".")[2]
    return re.search(rf'"(?:{re.escape(name)}|id)"\s*:', source.answer) is not None


def _match(
    run: RunView,
    failed: Call,
    fixed: Call,
    *,
    trigger: str,
    guideline: str,
    change: str,
    path: str,
    confidence: float,
    avoid: str = "",
    source: Call | None = None,
) -> RuleMatch:
    assert failed.error is not None
    quote = next((str(v) for v in fixed.leaves.get(path, ()) if isinstance(v, str)), "")[:MAX_FREE_TEXT_CHARS]
    looked_up = (run.cite(source.step, quote),) if source else ()
    return RuleMatch(
        rule="changed_argument",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'At step {failed.index} {code(failed.name)} answered "{failed.error.shape}". At step {fixed.index} it '
            f"worked {change}. {run.ending}"
        ),
        polarity="works" if run.succeeded else "mixed",
        confidence=confidence,
        citations=(run.cite(failed.step, failed.error.text), *looked_up, run.cite(fixed.step, quote)),
        tools=(failed.name, *((source.name,) if source else ())),
    )
