"""Calls failed on numbers or handles that the latest answer does not list, though it lists others."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name, times

MIN_FAILURES = 2
MIN_LISTED = 3
MAX_PAGE_CHARS = 30_000

_ACTING_WORDS = "click tap type fill press select hover scroll focus input drag check toggle swipe enter"
_ACTING = frozenset(_ACTING_WORDS.split())
_PLACE_WORDS = "index element bid ref uid node mark widget cell"
_PLACES = frozenset(_PLACE_WORDS.split())
_HANDLE = re.compile(r"[a-z]{0,3}\d{1,5}|\d{1,5}", re.IGNORECASE)
_AMISS = re.compile(
    r"not found|no (?:such|element|node|item|object|widget|cell|entry)|out of (?:range|bounds)"
    r"|(?:does not|doesn't) exist|invalid|(?:could not|cannot|can't|unable to|failed to) (?:find|locate|resolve)"
    r"|stale|unknown|not (?:visible|attached|valid|available)",
    re.IGNORECASE,
)
# How pages and screens number what one can act on: `[12] button`, `12: button`, `id=12`, `"index": 12`.
_LISTED = re.compile(
    r"\[([a-z]{0,3}\d{1,5})\]|^[ \t]{0,12}([a-z]{0,3}\d{1,5})[:.)] "
    r"|\b(?:id|ref|index|bid|uid)\"?[=:] ?\"?([a-z]{0,3}\d{1,5})\b",
    re.IGNORECASE | re.MULTILINE,
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such calls of a tool, in runs that did not succeed."""
    if run.succeeded:
        return []
    groups: dict[tuple[str, str], list[RunCall]] = {}
    for call in run.calls:
        if call.error and not call.command and not code_of(call) and _AMISS.search(call.error.text):
            for path, values in call.leaves.items():
                # Ids of records stay what they are; those of a page or screen do not.
                is_of_page = not _ACTING.isdisjoint(words_of(call.name)) or not _PLACES.isdisjoint(words_of(path))
                if is_of_page and _HANDLE.fullmatch(str(values[0])) and _is_unlisted(run, call, str(values[0])):
                    groups.setdefault((call.name, path), []).append(call)
    return [
        _make_match(run, calls, path)
        for (name, path), calls in groups.items()
        if len(calls) >= MIN_FAILURES and is_general(code(name)) and is_general(parameter_name(path))
    ]


def _is_unlisted(run: ReadRun, call: RunCall, handle: str) -> bool:
    """Return whether the last page before a call lists several handles, and not this one."""
    pages = (step.observation for step in reversed(run.episode.steps[: call.index - 1]))
    for page in pages:
        listed = {next(name for name in group if name) for group in _LISTED.findall(page[:MAX_PAGE_CHARS])}
        if len(listed) >= MIN_LISTED:
            return handle not in listed
    return False


def _make_match(run: ReadRun, calls: list[RunCall], path: str) -> RuleMatch:
    first = calls[0]
    assert first.error is not None
    tool, parameter = code(first.name), parameter_name(path)
    answered = f': {tool} answers "{first.error.shape}" to others' if says_something(first.error.shape) else ""
    return RuleMatch(
        rule="stale_reference",
        trigger=f"When about to call {tool} with {parameter} that the latest answer does not list",
        guideline=(
            f"Take {parameter} from the latest answer, as the numbers change from one answer to the next{answered}. If "
            "what you want is not listed, scroll, open or go to where it is first."
        ),
        avoid="Sending the same number again, or one of an earlier answer.",
        rationale=(
            f"{tool} was given {parameter} {times(len(calls))} that the answer before did not list, first at step "
            f"{first.index}, and failed. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.62,
        citations=tuple(run.cite(call.step, call.error.text) for call in calls[:3] if call.error),
        tools=(first.name,),
    )
