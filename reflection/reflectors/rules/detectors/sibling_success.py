"""A call never worked, and wherever it worked in the family another call had come first, which this run lacks."""

from collections import Counter

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.detectors.changed_argument import (
    FREE_TEXT,
    find_lookup,
    names_parameter,
    say_form,
    say_source,
)
from reflection.reflectors.rules.detectors.missing_prerequisite import names_object, put_first
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_harmful
from reflection.reflectors.rules.value_forms import relation
from reflection.reflectors.rules.wording import code, is_general, listed, parameter_name

MIN_RUNS = 2
MAX_CHOICES = 3
MAX_FAILURES = 20
MIN_VALUE_CHARS = 3


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for failing calls of tools that work in other runs of the family, in runs that did not succeed."""
    if run.succeeded or not run.family:
        return []
    failing: dict[str, RunCall] = {}
    for call in run.calls:
        if call.error and call.command is None and not call.is_edit and not call.error.has(ErrorKind.TRANSIENT):
            failing.setdefault(call.name, call)
    unrepaired = [call for call in list(failing.values())[:MAX_FAILURES] if not run.next_success(call)]
    return [
        match for call in unrepaired if (match := _of_source(run, call) or _of_choice(run, call) or _of_step(run, call))
    ]


def _worked(run: ReadRun, name: str) -> list[tuple[ReadRun, RunCall]]:
    """Return the other runs in which a tool worked, each with the first call that did."""
    first = [(o, next((c for c in o.calls if c.name == name and not c.error), None)) for o in run.family]
    return [(other, call) for other, call in first if call]


def _of_source(run: ReadRun, call: RunCall) -> RuleMatch | None:
    """Say from which lookup the other runs took a value that this run made up."""
    assert call.error is not None
    if not call.error.has(ErrorKind.NOT_FOUND, ErrorKind.FORM, ErrorKind.MISSING):
        return None
    for path, values in call.leaves.items():
        if path in FREE_TEXT or not is_general(parameter_name(path)) or run.source_of(values[0], before=call.index):
            continue
        sources: Counter[str] = Counter()
        example: dict[str, RunCall] = {}
        worked = _worked(run, call.name)
        for other, used in worked:
            value = used.leaves.get(path, ("",))[0]
            if len(str(value)) < MIN_VALUE_CHARS or other.said_by_anyone(value, before=used.index):
                continue
            if source := find_lookup(other, used, path=path, value=value):
                sources[source.name] += 1
                example[source.name] = source
        name, count = next(iter(sources.most_common(1)), ("", 0))
        # One run that did without the lookup shows that it is not needed.
        if count < MIN_RUNS or count < len(worked):
            continue
        trigger, guideline, avoid = say_source(call, path, example[name])
        return _make_match(
            run,
            call,
            f"after {code(name)}",
            count,
            rule="changed_argument",
            trigger=trigger,
            guideline=guideline,
            avoid=avoid,
        )
    return None


def _of_choice(run: ReadRun, call: RunCall) -> RuleMatch | None:
    """Name the few words that an argument took wherever the tool worked, if the error is about its form."""
    assert call.error is not None
    values = {path: group[0] for path, group in call.leaves.items() if _is_word(group[0])}
    paths = [path for path in values if names_parameter(call.error, path) and is_general(parameter_name(path))]
    worked = _worked(run, call.name)
    if not call.error.has(ErrorKind.FORM) or len(paths) != 1 or len(worked) < MIN_RUNS + 1:
        return None
    taken = {used.leaves.get(paths[0], ("",))[0] for _, used in worked}
    # Many different words are free text, not a choice.
    if len(taken) > MAX_CHOICES or values[paths[0]] in taken or not all(_is_word(value) for value in taken):
        return None
    alike = {relation(str(values[paths[0]]), str(value)) for value in taken}
    choices = "as " + listed([f'"{value}"' for value in sorted(taken)], last="or")
    form = alike.pop() if len(alike) == 1 else ""
    trigger, guideline = say_form(call, path=paths[0], form=form or choices)
    return _make_match(
        run,
        call,
        f"with {parameter_name(paths[0])} given in that way",
        len(worked),
        rule="changed_argument",
        trigger=trigger,
        guideline=guideline,
        avoid="",
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isalpha()


def _same_arguments(worked: list[tuple[ReadRun, RunCall]], name: str) -> str:
    """Return the words that a call had as arguments in every run where the tool worked after it."""
    last = [[c for c in other.calls if c.name == name and c.index < used.index][-1].arguments for other, used in worked]
    shared = {key: value for key, value in last[0].items() if all(call.get(key) == value for call in last)}
    arguments = [f"{code(key)} {code(value)}" for key, value in sorted(shared.items()) if _is_word(value)]
    return f" with {listed(arguments)}" if arguments else ""


def _of_step(run: ReadRun, call: RunCall) -> RuleMatch | None:
    """Say which one call came before in every run where the tool worked, and in none where it gave this error."""
    assert call.error is not None
    if call.error.has(ErrorKind.UNAVAILABLE, ErrorKind.REFUSED) or names_object(call.error):
        return None
    worked = _worked(run, call.name)
    failing = [run, *(o for o in run.family if not any(o is worker for worker, _ in worked))]
    failing = [other for other in failing if any(c.name == call.name for c in other.calls)]
    if len(worked) < MIN_RUNS + 1 or len(failing) < MIN_RUNS:
        return None
    before = [{c.name for c in other.calls if c.index < used.index and not c.error} for other, used in worked]
    tried = {c.name for other in failing for c in other.calls}
    # What the failing runs did too cannot be what they lacked.
    always = {name for name in set.intersection(*before) - tried if not is_harmful(name)}
    # With several, any of them may be the one that counts.
    if len(always) != 1:
        return None
    (name,) = always
    trigger, guideline, avoid = put_first(call, code(name), how=_same_arguments(worked, name))
    return _make_match(
        run,
        call,
        f"after {code(name)}",
        len(worked),
        rule="missing_prerequisite",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
    )


def _make_match(
    run: ReadRun, call: RunCall, how: str, count: int, *, rule: str, trigger: str, guideline: str, avoid: str
) -> RuleMatch:
    assert call.error is not None
    return RuleMatch(
        rule=rule,
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'At step {call.index} {code(call.name)} answered "{call.error.shape}", and it did not work later in this '
            f"run. In {count} other runs of its family it worked {how}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.78,
        citations=(run.cite(call.step, call.error.text),),
        tools=(call.name,),
    )
