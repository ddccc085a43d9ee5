"""A call failed on a value that stood nowhere before: no person gave it, and no tool returned it."""

import re
from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.detectors.changed_argument import FREE_TEXT
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import Call, RunView, is_reference
from reflection.reflectors.rules.tools import is_read, words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name, with_article

_ID_WORDS = frozenset("id ids number email phone username account code iban recipient reference bid key uid".split())  # noqa: SIM905
_MIN_VALUE_CHARS = 3
_UNTELLING = frozenset("id ids number name value type mode text message content date time amount".split())  # noqa: SIM905


def find(run: RunView) -> list[RuleMatch]:
    """Look for failing calls with an identifier that was made up, or a label that the last page did not show."""
    found: dict[str, RuleMatch] = {}
    for call in run.calls:
        if call.error is None or call.command is not None or call.is_edit or run.succeeded:
            continue
        for path, values in call.leaves.items():
            value = values[0]
            if not isinstance(value, str) or len(value) < _MIN_VALUE_CHARS or not is_general(parameter_name(path)):
                continue
            match = _not_on_page(run, call, path, value)
            if match is None and _is_identifier(path, value):
                match = _made_up(run, call, path, value)
            if match:
                found.setdefault(match.trigger, match)
    for match in _unfounded(run):
        found.setdefault(match.trigger, match)
    return list(found.values())


def _unfounded(run: RunView) -> list[RuleMatch]:
    """Look for accepted values that occur nowhere before, where a tool for them was on offer, in failed runs."""
    matches = []
    for call in run.calls:
        if not run.failed or call.error or call.command or call.is_edit:
            continue
        for path, values in call.leaves.items():
            if len(values) == 1 and not _stands_in(values[0], run.text_before(call.index)):
                guideline, source = _origin_of(run, call, path)
                if source and is_general(parameter_name(path)):
                    matches.append(_of_origin(run, call, path, values[0], guideline=guideline, source=source))
    return matches


def _stands_in(value: Any, text: str) -> bool:
    """Return whether a value occurs in a text as a whole word, a number in any of its spellings."""
    plain = f"{value:g}" if isinstance(value, int | float) else str(value)
    return (
        re.search(rf"(?<![\w.]){re.escape(plain)}(?:\.0+)?(?![\w])", text.replace(",", ""), re.IGNORECASE) is not None
    )


def _origin_of(run: RunView, call: Call, path: str) -> tuple[str, str]:
    """Return where a value should have come from, as a guideline and a tool: from an answer, or a tool on offer."""
    words = words_of(path.removesuffix("[]").rpartition(".")[2])
    before = [c for c in run.calls if c.index < call.index and not c.error]
    if words and words[-1] == "id":
        made = [c for c in before if len(words) > 1 and words[0] in words_of(c.name) and '"id":' in c.answer]
        if not made or made[-1].name == call.name:
            return "", ""
        return f"Take it from `id` in the answer of {code(made[-1].name)}.", made[-1].name
    telling = [word for word in words if word not in _UNTELLING]
    named = [
        name
        for name in dict.fromkeys(run.episode.tools)
        if telling and is_read(name) and name != call.name and words_of(name)[-len(telling) :] == tuple(telling)
    ]
    if len(named) != 1 or named[0] in {c.name for c in before}:
        return "", ""
    return f"Call {code(named[0])} first and take {parameter_name(path)} from its answer.", named[0]


def _of_origin(run: RunView, call: Call, path: str, value: Any, *, guideline: str, source: str) -> RuleMatch:
    tool, parameter = code(call.name), parameter_name(path)
    return RuleMatch(
        rule="invented_value",
        trigger=f"When about to call {tool} with {with_article(parameter)} that no answer and no person gave",
        guideline=guideline,
        avoid=f"Making up {parameter}.",
        rationale=(
            f"The {parameter} in the call of {tool} at step {call.index} occurs nowhere before, and was not taken from "
            f"{code(source)}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.7,
        citations=(run.cite(call.step, value if isinstance(value, str) else call.quotable),),
        tools=(call.name, source),
    )


def _is_identifier(path: str, value: str) -> bool:
    return is_reference(value) or bool(set(words_of(path)) & _ID_WORDS)


def _made_up(run: RunView, call: Call, path: str, value: str) -> RuleMatch | None:
    assert call.error is not None
    if not call.error.has(ErrorKind.NOT_FOUND) or path in FREE_TEXT:
        return None
    if value.strip("./#@ ").lower() in run.text_before(call.index).lower():
        return None
    tool, parameter = code(call.name), parameter_name(path)
    source = _source_of_such(run, call, path)
    if source:
        guideline = f"Take {parameter} from the answer of {code(source.name)}, which returns it."
    elif run.turns:
        guideline = f"Look {parameter} up with another tool, or ask the user for it."
    else:
        guideline = f"Look {parameter} up with another tool first."
    return RuleMatch(
        rule="invented_value",
        trigger=f"When about to call {tool} with {with_article(parameter)} that no answer and no person gave",
        guideline=guideline,
        avoid=f"Making up {parameter}, or deriving it from a name.",
        rationale=(
            f"The {parameter} in the call of {tool} at step {call.index} occurs nowhere before, and the answer was "
            f'"{call.error.shape}". {run.ending}'
        ),
        polarity="avoid",
        confidence=0.75 if source else 0.65,
        citations=(run.cite(call.step, value), run.cite(call.step, call.error.text)),
        tools=(call.name, *((source.name,) if source else ())),
    )


def _source_of_such(run: RunView, call: Call, path: str) -> Call | None:
    """Return a call whose answer has a member of the parameter's name."""
    name = path.removesuffix("[]").rpartition(".")[2]
    member = re.compile(rf'"{re.escape(name)}"\s*:', re.IGNORECASE)
    return next((c for c in run.calls if c.name != call.name and not c.error and member.search(c.answer)), None)


def _not_on_page(run: RunView, call: Call, path: str, value: str) -> RuleMatch | None:
    """Describe a label that is not in the answer before, in runs that act on pages with labels in brackets."""
    assert call.error is not None
    if set(call.arguments) != {path}:
        return None
    before = [step for step in run.episode.steps[: call.index - 1] if step.observation and not step.error]
    if not before or f"[{value}]" in before[-1].observation:
        return None
    earlier = [c for c in run.calls if c.name == call.name and not c.error and c is not call]
    pages = [step.observation for step in run.episode.steps]
    labelled = [c for c in earlier if any(f"[{c.leaves[path][0]}]" in page for page in pages if path in c.leaves)]
    if not labelled:
        return None
    tool, parameter = code(call.name), parameter_name(path)
    return RuleMatch(
        rule="invented_value",
        trigger=f"When about to call {tool} with a label in {parameter} that the latest page does not show in brackets",
        guideline=(
            f"Copy {parameter} exactly from the labels in brackets in the latest answer. If the one you want is not "
            "there, first go to the page that has it."
        ),
        avoid=f'Guessing a label, or using one from an earlier page: {tool} answers "{call.error.shape}".',
        rationale=(
            f"At step {call.index} {tool} was given a label that the page before did not show, and answered "
            f'"{call.error.shape}". {run.ending}'
        ),
        polarity="avoid",
        confidence=0.6,
        citations=(run.cite(call.step, value), run.cite(call.step, call.error.text or call.answer)),
        tools=(call.name,),
    )
