"""A tool refused code over a construct that the code has, and worked without it or refused it again and again."""

import builtins
import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import shape_of
from reflection.reflectors.rules.limits import find_limit
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, listed, times

MIN_REFUSALS = 2
MAX_PARTS = 3
MAX_CODE_CHARS = 8000
MIN_NAME_CHARS = 2

# The place does not want it, whatever the code is for. A misspelt name or a missing value is another matter.
_REFUSAL = re.compile(
    r"restricted|(?:not|never|n't) (?:be )?(?:allowed|permitted|available|supported|implemented|usable)|disallowed"
    r"|forbidden|prohibited|blocked|banned|rejected|unsupported|disabled|unavailable"
    r"|__\w{1,30}__ not (?:found|defined)",
    re.IGNORECASE,
)
_STATEMENT_WORDS = """
import lambda eval exec while async await global nonlocal yield insert update delete drop alter create join union pragma
attach require
"""
_STATEMENTS = frozenset(_STATEMENT_WORDS.split())
# A message says of a kind of statement that it is refused: "imports are restricted", "DROP statements are not allowed".
_STATEMENT_REFUSED = re.compile(
    r"\b(?:use of )?_{0,2}([a-z]{4,9}?)s?_{0,2}(?: (?:statements?|queries|commands?|expressions?|calls?|keywords?))?"
    r" (?:is|are|was|were|not|cannot|can't|has been)\b",
    re.IGNORECASE,
)
_BUILTINS = frozenset(name for name in dir(builtins) if name.islower())
_WORDS = re.compile(r"[A-Za-z_]\w{1,40}")
_QUOTED = re.compile(r"['\"`]([A-Za-z_][\w.]{1,40})['\"`]")
_STRINGS_AND_COMMENTS = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|#[^\n]*")


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such constructs in each tool that runs code; one lesson names all of a tool."""
    by_tool: dict[str, list[RunCall]] = {}
    for call in run.calls:
        if code_of(call) and not call.command:
            by_tool.setdefault(call.name, []).append(call)
    matches = [_explain(run, calls) for calls in by_tool.values()]
    return [match for match in matches if match]


def _explain(run: ReadRun, calls: list[RunCall]) -> RuleMatch | None:
    refused: dict[str, list[RunCall]] = {}
    for call in calls:
        if part := _part_of(call):
            refused.setdefault(part, []).append(call)
    # What a call that worked has, too, is not what was refused.
    used = {word for call in calls if not call.error for word in _words_in(code_of(call))}
    refused = {part: failed for part, failed in refused.items() if part not in used}
    failures = [call for failed in refused.values() for call in failed]
    without = next((call for call in calls if not call.error and failures), None)
    if not failures or not (without or len(failures) >= MIN_REFUSALS):
        return None
    parts = list(refused)[:MAX_PARTS]
    first = refused[parts[0]][0]
    assert first.error is not None
    tool = code(first.name)
    if not all(is_general(code(part)) for part in (*parts, first.name)):
        return None
    limit = find_limit(run.episode)
    shape = _shape_of(first)
    names = listed([code(part) for part in parts], last="or")
    pronoun = "it" if len(parts) == 1 else "them"
    return RuleMatch(
        rule="refused_part",
        trigger=f"When about to write code for {tool}",
        guideline=(
            f'Write it without {names}: {tool} refuses the whole code over {pronoun} ("{shape}"). Use what needs no '
            "such construct"
            + (", and what worked before." if without else ".")
            + (" A refused call counts as one of the few that the task allows." if limit else "")
        ),
        avoid=f"Sending {tool} other code with {names}, even for a side matter.",
        rationale=(
            f"{tool} refused code with {listed([code(part) for part in parts])} {times(len(failures))}, first at step "
            f"{first.index}; "
            + (f"code without it ran at step {without.index}. " if without else "no other code ran. ")
            + run.ending
        ),
        polarity="mixed",
        confidence=0.78,
        citations=tuple(run.cite(call.step, call.error.text) for call in failures[:3] if call.error),
        tools=(first.name,),
    )


def _part_of(call: RunCall) -> str:
    """Return the word of the code that a refusal names: one in quotation marks, or a kind of statement."""
    if call.error is None or not _REFUSAL.search(call.error.text):
        return ""
    words = _words_in(code_of(call))
    quoted: list[str] = [name for name in _QUOTED.findall(call.error.text) if name in words and _is_construct(name)]
    if quoted:
        return quoted[0]
    forms = (form.lower() for form in _STATEMENT_REFUSED.findall(call.error.text))
    return next((form for form in forms if form in _STATEMENTS and form in {word.lower() for word in words}), "")


def _is_construct(name: str) -> bool:
    """Return whether a name is the language's own, and not one that this program gave to something."""
    return name in _BUILTINS or name in _STATEMENTS or (name.startswith("__") and name.endswith("__"))


def _words_in(text: str) -> set[str]:
    return set(_WORDS.findall(_STRINGS_AND_COMMENTS.sub(" ", text[:MAX_CODE_CHARS])))


def _shape_of(call: RunCall) -> str:
    """Return the message without the exception's class and with "…" for the names of this program."""
    assert call.error is not None
    text = re.sub(r"^\w+: ", "", call.error.text)
    for word in sorted(_words_in(code_of(call)), key=len, reverse=True):
        if len(word) > MIN_NAME_CHARS and not _is_construct(word):
            text = re.sub(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", "…", text)
    # What it says of one name only differs from run to run.
    return re.sub(r"[;,:]? ?(?:\w{1,20}: ?)?(?<!-)…$", "", shape_of(text)).strip(" ;,:")
