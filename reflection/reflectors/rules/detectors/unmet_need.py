"""A call failed again and again for want of something in the surroundings, which another tool could have shown."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_read, words_of
from reflection.reflectors.rules.wording import code, is_general, times

MIN_FAILURES = 2
MIN_WORDS = 3

# What is in the way, or lacking, at this moment.
_NEED = re.compile(
    r"\b(?:not enough|insufficient|no (?:more )?(?:space|room|free)"
    r"|too (?:far|close|low|high|large|small|many|few|heavy|long)"
    r"|out of (?:reach|range|bounds|stock|fuel|memory)|(?:is|are) (?:not )?(?:empty|full|locked|closed|open"
    r"|occupied|busy|blocked|connected|running|ready|active|reachable|visible|nearby|selected|equipped|powered)"
    r"|not (?:near|next to|holding|carrying|facing|at|inside|reachable|visible)\b"
    r"|(?:do not|don't|does not|doesn't) have"
    r"|already (?:\w+ed|in|on|at|open|full)|needs? (?:a|an|to|at least)\b|requires? (?:a|an|at least)\b"
    r"|could not (?:reach|place)|cannot (?:reach|place|move|carry))",
    re.IGNORECASE,
)
_STATE_WORDS = "status state inventory observe observation look position entities resources available list view inspect"
_STATE = frozenset(_STATE_WORDS.split())


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for tools that failed in this way, and did not work after that, in a failed run."""
    if not run.failed:
        return []
    groups: dict[tuple[str, str], list[RunCall]] = {}
    for call in run.calls:
        if call.error and _is_need(call):
            groups.setdefault((call.name, call.error.shape), []).append(call)
    matches = []
    for (name, _), calls in groups.items():
        worked_later = any(c.name == name and not c.error and c.index > calls[-1].index for c in run.calls)
        if len(calls) >= MIN_FAILURES and not worked_later and is_general(code(name)):
            matches.append(_make_match(run, calls))
    return matches


def _is_need(call: RunCall) -> bool:
    assert call.error is not None
    words = re.findall(r"[A-Za-z]{2,}", call.error.shape)
    is_about_state = _NEED.search(call.error.shape) is not None and not call.error.has(ErrorKind.TRANSIENT)
    return (
        is_about_state
        and len(words) >= MIN_WORDS
        and says_something(call.error.shape)
        and not (call.command or code_of(call) or call.is_edit or is_read(call.name))
    )


def _make_match(run: ReadRun, calls: list[RunCall]) -> RuleMatch:
    first = calls[0]
    assert first.error is not None
    tool, shape = code(first.name), first.error.shape
    reader = _reader(run, first)
    look = f"Look with {code(reader)} whether" if reader else "Make sure that"
    return RuleMatch(
        rule="unmet_need",
        trigger=f'When about to call {tool}, or when it answers "{shape}"',
        guideline=(
            f"{look} what this answer speaks of is met, and bring that about first. Call {tool} again only when "
            "something has changed; if it cannot be met, take another way to the goal, or say what is missing."
        ),
        avoid=f"Calling {tool} again while nothing has changed, with only slightly other arguments.",
        rationale=(
            f'{tool} answered "{shape}" {times(len(calls))}, first at step {first.index}, and did not work after that. '
            f"{run.ending}"
        ),
        polarity="avoid",
        confidence=0.54,
        citations=tuple(run.cite(call.step, call.error.text) for call in calls[:3] if call.error),
        tools=(first.name, *((reader,) if reader else ())),
    )


def _reader(run: ReadRun, failed: RunCall) -> str:
    """Return a reading tool, used or on offer, whose name has a word of the message or says that it shows the state."""
    assert failed.error is not None
    said = {word.removesuffix("s") for word in re.findall(r"[a-z]{4,}", failed.error.shape.lower())}
    names = dict.fromkeys([*(call.name for call in run.calls if not call.error), *run.episode.tools])
    readers = [
        name
        for name in names
        if (is_read(name) or not _STATE.isdisjoint(words_of(name))) and name != failed.name and is_general(code(name))
    ]
    named = [name for name in readers if said & {word.removesuffix("s") for word in words_of(name)}]
    of_state = [name for name in readers if not _STATE.isdisjoint(words_of(name))]
    return next(iter([*named, *of_state]), "")
