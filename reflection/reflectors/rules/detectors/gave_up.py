"""A call failed and was not tried again in another way: the run stopped, or answered as if nothing could be done."""

import re
from typing import Any

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, ErrorShape, says_something, shape_of
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, listed

MAX_TEXT_CHARS = 20_000
MAX_RULE_CHARS = 120
MIN_FIELDS = 2

_NOT_TO_INSIST = (ErrorKind.REFUSED, ErrorKind.UNAVAILABLE, ErrorKind.TRANSIENT, ErrorKind.PRECONDITION)
_WAY_OUT = re.compile(r"\b(?:could not|couldn't|cannot|can't|unable|not (?:able|possible)|unfortunately|sorry)\b", re.I)
_SAYS_WHAT = re.compile(
    r"\b(?:must (?:be|have|start|end|contain)|should be|expected|expects|please (?:use|give|pass|provide)|required"
    r"|(?:is|are|use one of): )",
    re.IGNORECASE,
)
_NAME = re.compile(r"[\w.:/-]{2,120}")  # no word of a sentence, which some logs have in place of a call
# What to do instead, in a clause of its own.
_ADVICE = re.compile(
    r"(?:please |instead,? )(?:use|try(?! again)|call|provide|pass|set|get|run|specify)\b[^.!?;\n]{3,80}"
    r"|\b(?:use|try|call|run|get|pass) [^.!?;,\n]{2,60} (?:instead|directly|first)\b",
    re.IGNORECASE,
)
# An instruction about which parameters to give: "prefer passing just name and domain".
_ABOUT_ARGUMENTS = re.compile(
    r"\b(?:prefer|always|only|just|must)\b[^.!?;\n]{0,40}\b(?:pass|passing|give|giving|use|using|provide|providing|set"
    r"|specify)\b[^.!?;\n]{3,80}",
    re.IGNORECASE,
)
# A refusal of what was given as a whole, and not of one value or of the moment.
_MALFORMED = re.compile(
    r"\b(?:invalid|malformed|bad|wrong|incorrect|unexpected|illegal|validation)\b.{0,40}\b(?:arguments?|parameters?|params?|slots?|input"
    r"|request|payload|options?|fields?|info|data|body)\b|\b(?:arguments?|parameters?|slots?|input|request|payload)\b.{0,40}"
    r"\b(?:invalid|malformed|wrong|incorrect|rejected|refused|not (?:valid|accepted|allowed|understood))\b",
    re.IGNORECASE,
)
_FIELD = re.compile(r"^[ \t-]{0,12}([A-Za-z]\w{1,40}): ?(.{0,120})$", re.MULTILINE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for the first such call after which the agent said that it could not, or stopped, in a failed run."""
    if not run.failed:
        return []
    for call in run.calls:
        if call.error is None or call.command is not None or call.is_edit or not _NAME.fullmatch(call.name):
            continue
        advice = _advice_of(call.error)
        if call.error.has(ErrorKind.TRANSIENT) or (call.error.has(*_NOT_TO_INSIST) and not advice):
            continue
        others = [other for other in run.calls if other is not call and other.name == call.name]
        if any(other.index > call.index or other.same_as(call) for other in others):
            # It did try again.
            continue
        end = _end_of_work(run, call)
        if not end or not says_something(call.error.shape):
            continue
        if advice or _SAYS_WHAT.search(call.error.shape):
            return [_make_match(run, call, end=end, advice=advice)]
        if not code_of(call) and _MALFORMED.search(call.error.text) and (match := _retry(run, call, end=end)):
            return [match]
    return []


def _advice_of(error: ErrorShape) -> str:
    """Return what an error says to do instead, without values of the run, or ""."""
    match = _ADVICE.search(error.text)
    return shape_of(match[0]) if match else ""


def _end_of_work(run: ReadRun, call: RunCall) -> str:
    """Return how the agent ended right after a call: in which words, or by stopping; "" if it went on."""
    steps = run.episode.steps[call.index :]
    if not steps:
        return "the run ended"
    turn = next((turn for turn in run.turns if turn.step is steps[0]), None)
    if turn and _WAY_OUT.search(turn.said):
        return "the agent said that it could not do it"
    return "the agent answered" if turn and turn.step is run.episode.steps[-1] else ""


def _make_match(run: ReadRun, call: RunCall, *, end: str, advice: str) -> RuleMatch:
    assert call.error is not None
    tool, after = code(call.name), run.episode.steps[call.index : call.index + 1]
    return RuleMatch(
        rule="gave_up",
        trigger=f'When {tool} answers "{call.error.shape}"',
        guideline=(
            f'Do what the answer says before you give up: "{advice}".'
            if advice
            else f"Change the argument as the answer says, and call {tool} again before you give up."
        ),
        avoid="Giving up after the first failure.",
        rationale=(
            f'{tool} answered "{call.error.shape}" at step {call.index}, and without another try {end}. {run.ending}'
        ),
        polarity="avoid",
        confidence=0.55,
        citations=(run.cite(call.step, call.error.text), *(run.cite(step) for step in after)),
        tools=(call.name,),
    )


def _retry(run: ReadRun, call: RunCall, *, end: str) -> RuleMatch | None:
    """Propose to try again with fewer arguments, if the instructions or the task show which have no ground."""
    assert call.error is not None
    text = f"{run.episode.system_prompt}\n{run.episode.task}"[:MAX_TEXT_CHARS]
    fields = _fields_of(text)
    rule = _rule_about_arguments(text, {*map(_singular, call.arguments), *map(_singular, fields)})
    groundless = [name for name, value in call.arguments.items() if _has_no_ground(name, value, fields)]
    extra = [name for name in groundless if not rule or not re.search(rf"\b{re.escape(name)}\b", rule)]
    # What the call left undone of the instructions is the first thing to try.
    is_as_ruled = all(re.search(rf"\b{re.escape(name)}\b", rule) for name in call.arguments)
    if (is_as_ruled and not extra) or (not rule and len(extra) in (0, len(call.arguments))):
        return None
    if not all(is_general(code(name)) for name in (*extra, call.name)):
        return None
    tool, names = code(call.name), listed([code(name) for name in extra])
    how = [f'give what the instructions name ("{rule}"), with values from the task'] if rule else []
    if extra:
        how.append(f"leave out {names} unless the task gives a value for {'it' if len(extra) == 1 else 'them'}")
    after = run.episode.steps[call.index : call.index + 1]
    return RuleMatch(
        rule="gave_up",
        trigger=f'When {tool} answers "{call.error.shape}"',
        guideline=f"Call {tool} again before you answer: {'; '.join(how)}.",
        avoid="Answering after one refused call, be it with a question, with success, or with what will be done.",
        rationale=(
            f'{tool} answered "{call.error.shape}" at step {call.index}, and without another try {end}. '
            + (f"The task gives no such value for {names}. " if extra else "")
            + run.ending
        ),
        polarity="avoid",
        confidence=0.6,
        citations=(run.cite(call.step, call.error.text), *(run.cite(step) for step in after)),
        tools=(call.name,),
    )


def _fields_of(text: str) -> dict[str, list[str]]:
    """Return the values that a text lists by field, as in `domain: valve`."""
    fields: dict[str, list[str]] = {}
    for name, value in _FIELD.findall(text):
        fields.setdefault(name.lower(), []).append(value.strip(" '\"").lower())
    return fields


def _rule_about_arguments(text: str, names: set[str]) -> str:
    """Return the first instruction that names two parameters or fields."""
    for match in _ABOUT_ARGUMENTS.finditer(text):
        words = {_singular(word) for word in re.findall(r"\w{2,}", match[0].lower())}
        if len(words & names) >= MIN_FIELDS and len(match[0]) <= MAX_RULE_CHARS and is_general(match[0]):
            return " ".join(match[0].split())
    return ""


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def _has_no_ground(name: str, value: Any, fields: dict[str, list[str]]) -> bool:
    """Return whether an argument is empty, or has a value that the task lists, but for another field."""
    values = [str(item).strip(" []'\"").lower() for item in (value if isinstance(value, list) else [value])]
    values = [item for item in values if item and item != "none"]
    if not values:
        return True
    own = [listed for field, items in fields.items() if _singular(field) == _singular(name) for listed in items]
    others = [listed for field, items in fields.items() if _singular(field) != _singular(name) for listed in items]
    return (
        len(fields) >= MIN_FIELDS and not any(item in own for item in values) and any(item in others for item in values)
    )
