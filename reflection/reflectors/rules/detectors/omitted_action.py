"""The request named an action, a tool for it was on offer, and the run ended as if it were done without calling it."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun
from reflection.reflectors.rules.tools import is_change, is_irreversible, words_of
from reflection.reflectors.rules.wording import code, with_article

MIN_WORDS = 2
MAX_WORDS_BETWEEN = 6
_COMMITTING = frozenset(["book", "reserve", "order", "buy", "subscribe", "rent", "submit"])

_REFUSAL = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|unable|not (?:able|possible|allowed)|unfortunately|sorry|policy|transfer)\b",
    re.I,
)
_CONDITION = re.compile(r"\b(?:if|unless|otherwise|in case|only when|should)\b", re.I)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for the only tool on offer that the request names, among those never called in a run that failed."""
    if not run.failed or not run.episode.tools or not run.turns or any(call.error for call in run.calls):
        return []
    if any(_REFUSAL.search(turn.said) for turn in run.turns):
        return []
    asked = f"{run.episode.task}\n{run.heard_before(len(run.episode.steps) + 1)}"
    called = {call.name for call in run.calls}
    tools = [name for name in run.episode.tools if name not in called and _is_asked_for(name, asked)]
    # A tool that does the same under another name may have been called instead.
    tools = [name for name in tools if not any(_verb(name) == _verb(other) for other in called)]
    return [_make_match(run, tools[0])] if len(tools) == 1 else []


def _action(name: str) -> str:
    """Say what a tool does, by its name: "create a calendar event"."""
    verb, *thing = words_of(name)
    return f"{verb} {' '.join(thing) if thing[-1].endswith('s') else with_article(' '.join(thing))}"


def _verb(name: str) -> str:
    return (words_of(name) or ("",))[0]


def _is_asked_for(name: str, asked: str) -> bool:
    """Return whether a sentence without a condition uses the verb of a tool's name and then its last word."""
    words = words_of(name)
    if len(words) < MIN_WORDS or not is_change(name) or is_irreversible(name) or not _COMMITTING.isdisjoint(words):
        return False
    verb, thing = re.escape(words[0]), re.escape(words[-1].removesuffix("s"))
    pattern = re.compile(rf"\b{verb}\b(?:\W+\w+){{0,{MAX_WORDS_BETWEEN}}}?\W+{thing}\w{{0,2}}\b", re.IGNORECASE)
    return any(
        pattern.search(sentence) and not _CONDITION.search(sentence) for sentence in re.split(r"(?<=[.?!])\s|\n", asked)
    )


def _make_match(run: ReadRun, name: str) -> RuleMatch:
    last = run.turns[-1]
    return RuleMatch(
        rule="omitted_action",
        trigger=f"When the request says to {_action(name)}",
        guideline=f"Call {code(name)}, and read its answer, before you say that the work is done.",
        avoid="Ending with the preparations, as if the action itself had been carried out.",
        rationale=(
            f"The request asks for it and {code(name)} was on offer, but the run never called it and ended at step "
            f"{last.index}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.7,
        citations=(run.cite(last.step, last.said),),
        tools=(name,),
    )
