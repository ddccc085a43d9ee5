"""Arguments were written into one text, as in `search("query='a' day='b'")`, and the tool took it for one value."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall, is_empty
from reflection.reflectors.rules.wording import code, is_general, listed, times

MAX_TEXT_CHARS = 400
MIN_PAIRS = 2
_PAIR = re.compile(
    r"([a-z]\w{1,40}) ?= ?(?:'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|[^\s,'\"]{1,100})(?:,? |$)", re.IGNORECASE
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for tools of a failed run that never worked with such a text."""
    joined: dict[str, list[RunCall]] = {}
    for call in run.calls:
        if (call.error or is_empty(call)) and _names_in(call):
            joined.setdefault(call.name, []).append(call)
    if not run.failed:
        return []
    return [
        _make_match(run, calls) for name, calls in joined.items() if _never_worked(run, name) and is_general(code(name))
    ]


def _names_in(call: RunCall) -> list[str]:
    """Return the names that a text gives values to, if it is the only argument and has nothing else."""
    values = list(call.arguments.values())
    text = values[0].strip() if len(values) == 1 and isinstance(values[0], str) else ""
    if text[:1] == '"' == text[-1:]:
        text = text[1:-1]
    if call.command or not 0 < len(text) <= MAX_TEXT_CHARS:
        return []
    pairs = list(_PAIR.finditer(text))
    is_all = "".join(pair[0] for pair in pairs).replace(" ", "") == text.replace(" ", "")
    names = list(dict.fromkeys(pair[1] for pair in pairs))
    return names if is_all and len(names) >= MIN_PAIRS and all(map(is_general, map(code, names))) else []


def _never_worked(run: ReadRun, name: str) -> bool:
    return all(call.error or is_empty(call) for call in run.calls if call.name == name)


def _make_match(run: ReadRun, calls: list[RunCall]) -> RuleMatch:
    tool, names = code(calls[0].name), listed([code(name) for name in _names_in(calls[0])])
    return RuleMatch(
        rule="joined_arguments",
        trigger=f"When about to call {tool} with several arguments",
        guideline=f"Give {names} as separate arguments, each with its own value, and not as one text.",
        avoid=f"Writing all arguments of {tool} into one text: it takes the text for a single value.",
        rationale=(
            f"{tool} was called {times(len(calls))} with one text that has values for {names}, first at step "
            f"{calls[0].index}, and found nothing or failed each time. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.8,
        citations=tuple(run.cite(call.step, call.quotable) for call in calls[:3]),
        tools=(calls[0].name,),
    )
