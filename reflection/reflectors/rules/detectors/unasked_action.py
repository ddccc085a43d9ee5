"""A failed run sent something at its end, and the request has no word for that."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_talk, words_of
from reflection.reflectors.rules.wording import code, is_general

LAST_CALLS = 3
MAX_TASK_CHARS = 2000
_SENDS = frozenset(["send", "reply", "forward", "notify", "invite", "share", "post", "publish"])
# In which words people ask for what such tools do.
_ASKS_WORDS = """
send sent write notify notification inform tell reply respond forward invite share post publish confirm confirmation
remind reminder ask report announce contact
"""
_ASKS = frozenset(_ASKS_WORDS.split())
_DOES = frozenset(
    ["delete", "remove", "cancel", "update", "change", "rename", "move", "close", "archive", "reschedule"]
)
# A noun that is a verb where someone is named: "e-mail Ann", and not "the e-mail from Ann".
_NOUN_AS_VERB = re.compile(r"\b(?:e-?mail|message|text) (?!from\b|in\b|about\b|with\b)\w", re.IGNORECASE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look at the last calls of a failed run whose request names another change, and which was made first."""
    text = f"{run.episode.task}\n{run.heard_before(len(run.episode.steps) + 1)}"
    asked = _words(text[:MAX_TASK_CHARS])
    if not run.failed or len(text) > MAX_TASK_CHARS or not asked & _DOES or _NOUN_AS_VERB.search(text):
        return []
    for call in run.calls[-LAST_CALLS:]:
        sends = not _SENDS.isdisjoint(words_of(call.name)) and not is_talk(call.name)
        if sends and not call.error and asked.isdisjoint(_ASKS) and is_general(code(call.name)):
            return [_make_match(run, call)]
    return []


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", text.lower()))


def _make_match(run: ReadRun, call: RunCall) -> RuleMatch:
    tool = code(call.name)
    return RuleMatch(
        rule="unasked_action",
        trigger=f"When about to call {tool} though the request does not ask for it",
        guideline="Do only what the request asks for, and then stop. What was done can be told in the final answer.",
        avoid=f"Calling {tool} to confirm or to round off the work.",
        rationale=f"At step {call.index} {tool} was called; the task has no word for it. {run.ending}",
        polarity="avoid",
        confidence=0.78,
        citations=(run.cite(call.step, call.quotable),),
        tools=(call.name,),
    )
