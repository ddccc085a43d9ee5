"""A tool gave the same error to several different calls of a failed run: the run guessed instead of reading it."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall, is_reference, occurs
from reflection.reflectors.rules.wording import code, is_general, times, with_article

MIN_CALLS = 2
MIN_NAMES = 2
MIN_LIST_NAMES = 3
MIN_NAME_CHARS = 3

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")
# A message that sets a value against the one that was given.
_NAMES_VALUE = re.compile(
    r"\b(?:is|are|was|be|of|expected|total|needs?|requires?|least|most|exceeds?|limit|maximum|minimum|has|only|than)"
    r"[ :=(]{1,3}….{0,60}\b(?:but|got|given|paid|received|actual|instead|provided|not|found|you)\b",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"\b(?:no|not|unknown|invalid|undefined|unrecogni[sz]ed|nonexistent|non-existent|does(?: not|n't))\b", re.IGNORECASE
)
_KINDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}
_QUOTED = re.compile(r"['\"`]([A-Za-z_][\w.:-]{2,60})['\"`]")
_LISTED = re.compile(r"\"name\": ?\"([\w.-]{3,60})\"|^[ \t]{0,8}[-*\d.)]{1,4} {1,3}`?([\w.-]{3,60})\b", re.MULTILINE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such groups of calls, and whether the message says what would be right."""
    if not run.failed:
        return []
    groups: dict[tuple[str, str], list[RunCall]] = {}
    for call in run.calls:
        if call.error and not call.is_check and not call.error.has(ErrorKind.TRANSIENT):
            groups.setdefault((call.label, call.error.shape), []).append(call)
    matches = []
    for calls in groups.values():
        if len({repr(call.arguments) for call in calls}) >= MIN_CALLS and is_general(code(calls[0].label)):
            match = _named_value(run, calls) or _guessed(run, calls) or _contrast(run, calls)
            matches += [match] if match else []
    return matches


def _named_value(run: ReadRun, calls: list[RunCall]) -> RuleMatch | None:
    """Propose to take the number that the message names."""
    first = calls[0]
    assert first.error is not None
    shape = first.error.shape
    if code_of(first) or not says_something(shape) or not _NAMES_VALUE.search(shape):
        return None
    given = {str(value) for group in first.leaves.values() for value in group}
    numbers = [number for number in _NUMBER.findall(first.error.text) if number not in given]
    if not numbers:
        return None
    tool = code(first.name)
    return RuleMatch(
        rule="same_error",
        trigger=f'When {tool} answers "{shape}"',
        guideline=(
            "The answer names the value that would be right. Before another try, set the argument that it speaks of to "
            "that value, and check it against what earlier answers say, instead of working it out again from memory."
        ),
        avoid=f"Trying {tool} again with another guess.",
        rationale=(
            f"{tool} gave this answer {times(len(calls))} to different arguments, first at step {first.index}. "
            f"{run.ending}"
        ),
        polarity="avoid",
        confidence=0.58,
        citations=tuple(run.cite(call.step, call.error.text) for call in calls[:3] if call.error),
        tools=(first.name,),
    )


def _guessed(run: ReadRun, calls: list[RunCall]) -> RuleMatch | None:
    """Propose to copy names from an answer that lists them, if several that do not exist were tried."""
    first = calls[0]
    assert first.error is not None
    if not _UNKNOWN.search(first.error.shape):
        return None
    tried = {name: call for call in calls if (name := _name_in(run, call))}
    if len(tried) < MIN_NAMES:
        return None
    label = code(first.label)
    source = _listing(run, tried)
    shown = f"the answer at step {source.index} listed the names that exist" if source else "no answer listed them"
    what = "code" if code_of(first) and not first.command else "a call"
    return RuleMatch(
        rule="same_error",
        trigger=f"When about to write {what} for {label} with a name that no answer has shown",
        guideline=(
            "List the names that exist first, or look at the list that an answer has given, and copy them from there: "
            f'{label} answers "{first.error.shape}" to a guessed one.'
        ),
        avoid="Trying one likely name after another.",
        rationale=(
            f"{len(tried)} names that do not exist were tried, first at step {first.index}, and {shown}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.6,
        citations=(
            *(run.cite(call.step, call.error.text) for call in calls[:2] if call.error),
            *((run.cite(source.step),) if source else ()),
        ),
        tools=(first.name,),
    )


def _contrast(run: ReadRun, calls: list[RunCall]) -> RuleMatch | None:
    """Propose what all calls that worked have and none of these, or the other way round, if it is a single thing."""
    first = calls[0]
    assert first.error is not None
    worked = [call for call in run.calls if call.name == first.name and not call.error]
    if len(worked) < MIN_CALLS or first.command or code_of(first):
        return None
    # A message that names an argument says more about it than what other calls have in common.
    named = set(re.findall(r"\w+", first.error.shape))
    names = {name for call in (*calls, *worked) for name in call.arguments} - {"input"} - named
    hints = [hint for name in sorted(names) if (hint := _difference(run, name, calls, worked))]
    if len(hints) != 1:
        return None
    name, trigger, guideline = hints[0]
    if not is_general(code(name)):
        return None
    tool = code(first.name)
    return RuleMatch(
        rule="same_error",
        trigger=f"When about to call {tool} {trigger}",
        guideline=f'{guideline}: {tool} answers "{first.error.shape}" to it, and works otherwise.',
        avoid=f"Changing other arguments of {tool} instead.",
        rationale=(
            f"{tool} failed {times(len(calls))} in this way, first at step {first.index}, and worked "
            f"{times(len(worked))}, first at step {worked[0].index}; {code(name)} is the one thing in which "
            f"all of these differ. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.64,
        citations=(
            *(run.cite(call.step, call.error.text) for call in calls[:2] if call.error),
            run.cite(worked[0].step, worked[0].quotable),
        ),
        tools=(first.name,),
    )


def _difference(run: ReadRun, name: str, failed: list[RunCall], worked: list[RunCall]) -> tuple[str, str, str] | None:
    """Return an argument, when it is at fault and what to do about it, if it tells the two groups apart."""
    given, taken = [name in call.arguments for call in failed], [name in call.arguments for call in worked]
    parameter = code(name)
    if all(given) and not any(taken):
        return name, f"with {parameter}", f"Leave out {parameter}"
    if all(taken) and not any(given):
        return name, f"without {parameter}", f"Pass {parameter}"
    if not (all(given) and all(taken)):
        return None
    wrong = {type(call.arguments[name]) for call in failed}
    right = {type(call.arguments[name]) for call in worked}
    if len(right) == 1 and wrong.isdisjoint(right) and (kind := _KINDS.get(right.pop())):
        return name, f"with {parameter} in another form than {kind}", f"Give {parameter} as {kind}"
    texts = [(call, call.arguments[name]) for call in (*failed, *worked)]
    if all(is_reference(value) for _, value in texts):
        shown = {call.index: occurs(value, run.text_before(call.index)) for call, value in texts}
        if not any(shown[call.index] for call in failed) and all(shown[call.index] for call in worked):
            return name, f"with {with_article(parameter)} that no answer has shown", f"Copy {parameter} from an answer"
    return None


def _name_in(run: ReadRun, call: RunCall) -> str:
    """Return the name that a call sent and its error repeats, unless the task or an answer had shown it."""
    assert call.error is not None
    sent = str(call.arguments)
    before = run.text_before(call.index)
    names = [name for name in _QUOTED.findall(call.error.text) if re.search(rf"\b{re.escape(name)}\b", sent)]
    if not code_of(call):
        values = (str(group[0]) for group in call.leaves.values())
        names += [value for value in values if len(value) >= MIN_NAME_CHARS and occurs(value, call.error.text)]
    return next((name for name in names if name not in before), "")


def _listing(run: ReadRun, tried: dict[str, RunCall]) -> RunCall | None:
    """Return a call whose answer lists names of the kind that was guessed."""
    for call in run.calls:
        if not call.error and len(_LISTED.findall(call.answer[:4000])) >= MIN_LIST_NAMES:
            return call
    return None
