"""A call failed, and the same tool worked with one argument changed: the change is the lesson, if it explains it."""

import re
from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, ErrorShape, shape_of
from reflection.reflectors.rules.run_view import ReadRun, RunCall, is_reference
from reflection.reflectors.rules.tools import is_change, is_harmful, is_talk, words_of
from reflection.reflectors.rules.value_forms import change_of_form, form_of, form_of_format, form_of_schema, relation
from reflection.reflectors.rules.wording import code, is_general, parameter_name, with_article

MAX_FAILURES = 50
MAX_CALLS_BETWEEN = 12
MAX_FREE_TEXT_CHARS = 120
MIN_ID_NUMBER = 100

# Errors about the state of things, which no form of an argument explains.
_OF_STATE = (ErrorKind.UNAVAILABLE, ErrorKind.TRANSIENT, ErrorKind.REFUSED)
_ID_WORDS = frozenset(["id", "ids", "number", "no"])
_TYPE = re.compile(r"must be (?:an? )?(list|string|integer|number|boolean|dictionary)\b", re.IGNORECASE)
_REQUIRED = re.compile(r"(?:(?:this )?field )?(?:is )?required\.?|.{0,60}received undefined", re.IGNORECASE)
_AS_LIST = "as a list, even for a single entry"
_PATH = re.compile(r"[\w.~-]{0,60}(?:/[\w.-]{1,60}){1,12}|[\w-]{1,60}\.[a-z]{1,5}")
_EVERYTHING = frozenset(["any", "all", "*", "every", "everything"])
_NUMBERS = frozenset("zero one two three four five six seven eight nine ten none null true false".split())  # noqa: SIM905
_UNSPECIFIC = frozenset("id ids name number value key input type code".split())  # noqa: SIM905
FREE_TEXT = frozenset("input text content query title name description message body command".split())  # noqa: SIM905


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for failed calls and the next call of the same tool that worked."""
    matches = []
    for failed in [c for c in run.calls if c.error and c.command is None and not c.is_edit][:MAX_FAILURES]:
        fixed = run.next_success(failed)
        # After many other calls, any of them may be what helped.
        is_near = fixed is not None and len(run.between(failed, fixed)) <= MAX_CALLS_BETWEEN
        match = _of_schema(run, failed, fixed if is_near else None)
        if match is None and fixed is not None and is_near:
            match = _explain(run, failed, fixed)
        if match is None and fixed is None:
            match = _of_error(run, failed)
        if match:
            matches.append(match)
    return matches


def _explain(run: ReadRun, failed: RunCall, fixed: RunCall) -> RuleMatch | None:
    # Only failing calls come here.
    assert failed.error is not None
    before, after = failed.leaves, fixed.leaves
    changed = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    # A value that became a list changes its path as well.
    if len(changed) == 2 and changed[1] == f"{changed[0]}[]":
        is_list = changed[1] in after
        return _of_form(
            run, failed, fixed, path=changed[0], form=_AS_LIST if is_list else "as a single value, not as a list"
        )
    paths = [path for path in changed if names_parameter(failed.error, path)]
    if not changed or not (len(changed) == 1 or len(paths) == 1):
        # Several changes, and the error names none: any of them may have helped.
        return None
    path = paths[0] if len(paths) == 1 else changed[0]
    if not is_general(parameter_name(path)):
        return None
    old, new = before.get(path, ()), after.get(path, ())
    if not old or not new:
        return _of_presence(run, failed, fixed, path=path)
    # "Sold out" is no fault of the argument, even if another value worked.
    if failed.error.has(*_OF_STATE) and not failed.error.has(ErrorKind.FORM, ErrorKind.MISSING, ErrorKind.NOT_FOUND):
        return None
    if match := _of_source(run, failed, fixed, path=path, old=old[0], new=new[0]):
        return match
    helped = [c for c in run.between(failed, fixed) if not c.error and not c.only_reads and c.name != failed.name]
    if not paths and (helped or failed.error.kinds == {ErrorKind.PRECONDITION}):
        # What came in between may have helped.
        return None
    form = change_of_form(old, new, error=failed.error.text)
    return _of_form(run, failed, fixed, path=path, form=form) if form else None


def names_parameter(error: ErrorShape, path: str) -> bool:
    """Return whether the error speaks of a parameter, by all the telling words of its name."""
    words = [word for word in words_of(path.removesuffix("[]").rpartition(".")[2]) if word not in _UNSPECIFIC]
    text = f"{error.field} {error.text}".lower()
    return bool(words) and all(re.search(rf"\b{re.escape(word)}", text.replace("_", " ")) for word in words)


def _of_schema(run: ReadRun, failed: RunCall, fixed: RunCall | None) -> RuleMatch | None:
    """Describe what a tool's schema asks for, whether the run gave it in the end or not."""
    assert failed.error is not None
    field, _, inner = failed.error.field.partition(".")
    if not field:
        return None
    tool, parameter, shape = code(failed.name), code(field), shape_of(failed.error.text)
    is_missing = _REQUIRED.fullmatch(failed.error.text) is not None
    if is_missing and re.fullmatch(r"[a-z_]\w*", inner) and isinstance(failed.arguments.get(field), dict):
        # What was given lacks a part.
        parameter = parameter_name(f"{field}.{inner}")
    if is_missing and (outer := _outer_of(failed, field)):
        return _of_nesting(run, failed, field=field, outer=outer)
    form = form_of_schema(failed.error.text)
    asked = f"Give {parameter} {form}." if form else f'Give {parameter} as the schema of {tool} asks: "{shape}".'
    if field in failed.arguments:
        asked += _about_nothing(failed.arguments[field]) + _about_word(failed.arguments[field], form)
    return RuleMatch(
        rule="changed_argument",
        trigger=f"When about to call {tool}{f' without {parameter}' if is_missing else ''}",
        guideline=(
            f"Pass {parameter}: the schema of {tool} requires it{_elsewhere(failed, field, inner)}."
            if is_missing
            else asked
        ),
        avoid=f"Sending {tool} again unchanged, or giving up, after a validation error.",
        rationale=(
            f'At step {failed.index} {tool} refused its {parameter}: "{shape}". '
            f"{f'It worked at step {fixed.index}' if fixed else 'The run did not correct it'}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, failed.error.text), *((run.cite(fixed.step),) if fixed else ())),
        tools=(failed.name,),
    )


def _elsewhere(failed: RunCall, field: str, inner: str) -> str:
    """Say in which other argument a missing part was given, "" if in none."""
    paths = [path for path in failed.leaves if inner and path.rpartition(".")[2] == inner]
    other = paths[0].rpartition(".")[0].rpartition(".")[2] if paths else ""
    return f" there, and not inside {code(other)}" if other and is_general(code(other)) and other != field else ""


def _outer_of(failed: RunCall, field: str) -> str:
    """Return the argument in which a parameter was given that the tool did not find, or ""."""
    outer = [name for name, value in failed.arguments.items() if isinstance(value, dict) and field in value]
    return outer[0] if len(outer) == 1 and field not in failed.arguments else ""


def _of_nesting(run: ReadRun, failed: RunCall, *, field: str, outer: str) -> RuleMatch | None:
    """Describe arguments that were wrapped in another one, where the tool does not look for them."""
    assert failed.error is not None
    tool, parameter, wrapper = code(failed.name), code(field), code(outer)
    right = next((c for c in run.calls if c.name == failed.name and not c.error and field in c.arguments), None)
    end = f"On its own it was taken at step {right.index}" if right else "The run did not correct it"
    if not is_general(parameter + wrapper):
        return None
    return RuleMatch(
        rule="changed_argument",
        trigger=f"When about to call {tool} with {parameter} inside {wrapper}",
        guideline=f"Pass {parameter} as an argument of its own: {tool} does not find it inside {wrapper}.",
        avoid=f"Wrapping the arguments of {tool} in {wrapper}.",
        rationale=(
            f"At step {failed.index} {tool} did not find {parameter}, which was given inside {wrapper}. "
            f"{end}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.85,
        citations=(run.cite(failed.step, failed.error.text), *((run.cite(right.step),) if right else ())),
        tools=(failed.name,),
    )


def _about_nothing(value: Any) -> str:
    """Return what to do instead of giving a value that stands for nothing or for everything, or ""."""
    if value is None:
        return " It takes no null: without a value, leave it out if the schema allows that."
    if isinstance(value, str) and value.strip().lower() in _EVERYTHING:
        return " No word stands for all: to ask for all, leave it out if the schema allows that."
    return ""


def _about_word(value: Any, form: str) -> str:
    """Return what to do where a word was given for a number that stands for something, or ""."""
    is_word = isinstance(value, str) and value.strip().isalpha()
    if (
        not is_word
        or value.strip().lower() in (_EVERYTHING | _NUMBERS)
        or form not in ("as a whole number", "as a number")
    ):
        return ""
    return " Look up which number stands for the word; if nothing shows it, leave it out instead of guessing one."


def _of_error(run: ReadRun, failed: RunCall) -> RuleMatch | None:
    """Describe the form that an error spells out, or the longer path that an answer had shown, if it never worked."""
    assert failed.error is not None
    for path, values in sorted(failed.leaves.items()):
        if form := _shown_type(run, failed, path, values[0]):
            return _uncorrected(run, failed, form=form, path=path, value=str(values[0]), shown=str(values[0]))
    texts = {path: values[0] for path, values in failed.leaves.items() if isinstance(values[0], str)}
    format_asked = form_of_format(failed.error.text)
    for path, value in sorted(texts.items()):
        if not is_general(parameter_name(path)):
            continue
        if form := _type_asked(failed, path):
            return _uncorrected(run, failed, form=form, path=path, value=value)
        if format_asked and value in failed.error.text and form_of(value) != format_asked:
            return _uncorrected(run, failed, form=format_asked, path=path, value=value)
        shown = _shown_path(run, failed, value) if failed.error.has(ErrorKind.NOT_FOUND) else None
        if shown:
            form = "with its folder, exactly as an earlier answer shows it"
            return _uncorrected(run, failed, form=form, path=path, value=value, shown=shown)
    return None


def _type_asked(failed: RunCall, path: str) -> str:
    """Return how to give a parameter of which the error says what type it must be of, or ""."""
    assert failed.error is not None
    match = _TYPE.search(failed.error.text)
    return form_of_schema(f"valid {match[1]}") if match and names_parameter(failed.error, path) else ""


def _shown_type(run: ReadRun, failed: RunCall, path: str, value: Any) -> str:
    """Return how to give digits that answers show under the parameter's name in the other type: text or number."""
    name = path.removesuffix("[]").rpartition(".")[2]
    if failed.error is None or not failed.error.has(ErrorKind.NOT_FOUND) or not str(value).isdigit():
        return ""
    member = re.compile(rf'"{re.escape(name)}"\s*:\s*("?){value}(?!\w)')
    quoted = {match for c in run.calls if c.index < failed.index and not c.error for match in member.findall(c.answer)}
    # Where answers show both types, nothing says which is asked for.
    if len(quoted) != 1 or not is_general(parameter_name(path)) or isinstance(value, str) == bool(quoted.pop()):
        return ""
    return "as a number, not as a text" if isinstance(value, str) else "as a text, not as a number"


def _shown_path(run: ReadRun, failed: RunCall, name: str) -> str | None:
    """Return the one path ending in a file's bare name that earlier answers show."""
    if not re.fullmatch(r"[\w-]+\.\w{1,5}", name):
        return None
    path = re.compile(rf"(?<![\w./-])[\w-]+(?:/[\w-]+)*/{re.escape(name)}(?![\w/.-])")
    shown = {match for call in run.calls if call.index < failed.index for match in path.findall(call.answer)}
    # With several files of that name it cannot be told which was meant.
    return shown.pop() if len(shown) == 1 else None


def _uncorrected(run: ReadRun, failed: RunCall, *, form: str, path: str, value: str, shown: str = "") -> RuleMatch:
    assert failed.error is not None
    trigger, guideline = say_form(failed, path=path, form=form)
    guideline += _about_word(value, form)
    source = run.latest_source(shown, before=failed.index) if shown else None
    source_text = f"Step {source.index} had shown it in the right form" if source else "The error names the form"
    return RuleMatch(
        rule="changed_argument",
        trigger=trigger,
        guideline=guideline,
        rationale=(
            f'At step {failed.index} {code(failed.name)} answered "{failed.error.shape}", and the run did not correct '
            f"it. {source_text}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.75,
        citations=(*((run.cite(source.step, shown),) if source else ()), run.cite(failed.step, value)),
        tools=(failed.name,),
    )


def say_form(failed: RunCall, *, path: str, form: str) -> tuple[str, str]:
    """Return trigger and guideline of the lesson that an argument has to be given in some form."""
    assert failed.error is not None
    trigger = f'When about to call {code(failed.name)}, or when it answers "{failed.error.shape}"'
    return trigger, f"Give {parameter_name(path)} {form}."


def _of_presence(run: ReadRun, failed: RunCall, fixed: RunCall, *, path: str) -> RuleMatch | None:
    """Describe an argument that was added or left out."""
    assert failed.error is not None
    added = path in fixed.leaves
    if not (names_parameter(failed.error, path) or failed.error.has(ErrorKind.MISSING, ErrorKind.FORM)):
        return None
    if not added and (form := _type_asked(failed, path)):
        # That it worked without the value does not make the value wrong.
        return _uncorrected(run, failed, form=form, path=path, value=str(failed.leaves[path][0]))
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


def _of_form(run: ReadRun, failed: RunCall, fixed: RunCall, *, path: str, form: str) -> RuleMatch:
    trigger, guideline = say_form(failed, path=path, form=form)
    return _match(
        run,
        failed,
        fixed,
        trigger=trigger,
        guideline=guideline,
        change=f"with {parameter_name(path)} {form.partition(', not ')[0]}",
        path=path,
        confidence=0.85,
    )


def _of_source(run: ReadRun, failed: RunCall, fixed: RunCall, *, path: str, old: Any, new: Any) -> RuleMatch | None:
    """Describe a value that another tool had returned, where the first one had come from nowhere."""
    assert failed.error is not None
    is_number = isinstance(new, int) and new >= MIN_ID_NUMBER and bool(set(words_of(path)) & _ID_WORDS)
    is_code = isinstance(new, str) and re.fullmatch(r"[A-Z]{2,5}", new) is not None
    is_path = isinstance(new, str) and _PATH.fullmatch(new) is not None
    if not (is_reference(new) or is_code or is_number or is_path) or not failed.error.has(
        ErrorKind.NOT_FOUND, ErrorKind.FORM
    ):
        return None
    if path in FREE_TEXT or relation(str(old), str(new)):
        return None
    source = find_lookup(run, fixed, path=path, value=new)
    if source is None or source.index < failed.index:
        # An answer that was there before is not what helped.
        return None
    # Small numbers occur in many answers, so the member's name has to fit as well.
    if (is_number and not _returns(source, path)) or run.source_of(old, before=failed.index):
        return None
    # A value that a person gave needed no lookup.
    if run.said_by_anyone(new, before=failed.index):
        return None
    trigger, guideline, avoid = say_source(failed, path, source)
    parameter, lookup = parameter_name(path), code(source.label)
    return _match(
        run,
        failed,
        fixed,
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        change=f"with {with_article(parameter)} that {lookup} had returned at step {source.index}",
        path=path,
        confidence=0.85,
        source=source,
    )


def say_source(failed: RunCall, path: str, source: RunCall) -> tuple[str, str, str]:
    """Return trigger, guideline and avoid of the lesson that a value has to come from a lookup."""
    assert failed.error is not None
    tool, parameter, lookup = code(failed.name), parameter_name(path), code(source.label)
    return (
        f"When about to call {tool} with {with_article(parameter)} that neither a tool nor the user has given",
        (
            f"First call {lookup} and copy {parameter} from its answer. A value from elsewhere was answered with "
            f'"{failed.error.shape}".'
        ),
        f"Making up {parameter}, or deriving it from a description.",
    )


def find_lookup(run: ReadRun, used: RunCall, *, path: str, value: Any) -> RunCall | None:
    """Return the last lookup before a call that returned exactly this value and did not need it as an argument."""
    name = path.removesuffix("[]").rpartition(".")[2]
    # Not as part of a longer id, path or address.
    exactly = re.compile(rf"(?<![\w./@#-]){re.escape(str(value))}(?![\w/@#-]|\.\w)")
    for call in reversed(run.calls):
        if call.index >= used.index or call.error or call.name == used.name or name in call.arguments:
            continue
        changes = is_change(call.name) or is_harmful(call.name) or is_talk(call.name)
        if not changes and exactly.search(call.answer):
            return call
    return None


def _returns(source: RunCall, path: str) -> bool:
    """Return whether an answer has a member of the parameter's name, or an `id`."""
    name = path.removesuffix("[]").rpartition(".")[2]
    return re.search(rf'"(?:{re.escape(name)}|id)"\s*:', source.answer) is not None


def _match(
    run: ReadRun,
    failed: RunCall,
    fixed: RunCall,
    *,
    trigger: str,
    guideline: str,
    change: str,
    path: str,
    confidence: float,
    avoid: str = "",
    source: RunCall | None = None,
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
        polarity="mixed",
        confidence=confidence,
        citations=(run.cite(failed.step, failed.error.text), *looked_up, run.cite(fixed.step, quote)),
        tools=(failed.name, *((source.name,) if source else ())),
    )
