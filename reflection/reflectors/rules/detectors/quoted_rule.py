"""A tool refused a call and quoted the rule or the condition; it never worked in this run."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.detectors.missing_prerequisite import (
    OBJECT,
    best_named,
    concerns,
    names_object,
    put_first,
    speaks_of,
)
from reflection.reflectors.rules.errors import ErrorKind, ErrorShape
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_harmful
from reflection.reflectors.rules.wording import code, is_general

MIN_RULE_WORDS = 4
MIN_FIELD_CHARS = 4
MIN_SHARED_WORDS = 2

# An error of one of these kinds is about the call or the moment, not about a rule.
_NO_RULE = (ErrorKind.TRANSIENT, ErrorKind.NOT_FOUND, ErrorKind.MISSING)

_RULE = re.compile(
    r"\b(?:cannot|can't|can not|can only|must|may not|not (?:be )?(?:allowed|permitted|eligible|possible)|only\b.*\bcan"
    r"|needs? to be|ha(?:s|ve) to|requires?|before|unless|until|first)\b",
    re.IGNORECASE,
)
# What a tool says of its own trouble, which is no rule of the place.
_TROUBLE = re.compile(
    r"\b(?:cannot|can't|can not|could not)\b (?:be )?"
    r"(?:find|found|open|read|access|import|connect|parse|load|see|resolve|stat|decode|convert|locate|determine)"
    r"|\bmust be (?:one of|an?\b|in\b|of\b|between|greater|less|at (?:least|most))|\bshould be\b",
    re.IGNORECASE,
)
# What a tool says of how a value is written: it takes another value, so the call itself is not forbidden.
_OF_VALUE = re.compile(
    r"\b(?:path|character|symbol|space|slash|extension|format|argument|parameter|input|string)s?\b[^.]{0,20}"
    r"\b(?:not (?:be )?(?:allowed|permitted|supported)|cannot|can't|may not)\b",
    re.IGNORECASE,
)
_VERB_FIRST = re.compile(r"\b(?:have|need|must)(?: to)? (\w+)\b.{0,60}\bfirst\b", re.IGNORECASE)
_STATED = re.compile(r'"(\w+)":\s*"([A-Za-z][\w ]{3,40})"')


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for refusals with a rule or condition in words, once for each rule."""
    if run.succeeded:
        return []
    matches: dict[str, RuleMatch] = {}
    for call in run.calls:
        if call.error is None or call.command is not None or call.is_edit or call.error.shape in matches:
            continue
        shape = call.error.shape
        if not _is_rule(call.error):
            continue
        if any(c.index > call.index and c.name == call.name and not c.error for c in run.calls):
            # It worked later: another detector says why, if it can be said.
            continue
        if match := _make_match(run, call):
            matches[shape] = match
    return list(matches.values())


def _is_rule(error: ErrorShape) -> bool:
    words = re.findall(r"[A-Za-z]{2,}", error.shape)
    if len(words) < MIN_RULE_WORDS or error.has(*_NO_RULE):
        return False
    if _TROUBLE.search(error.shape) or _OF_VALUE.search(error.shape):
        return False
    return _RULE.search(error.shape) is not None and error.has(ErrorKind.REFUSED, ErrorKind.PRECONDITION)


def _make_match(run: ReadRun, call: RunCall) -> RuleMatch | None:
    """Name the tool that the condition speaks of, or quote the rule and where it could have been seen."""
    assert call.error is not None
    tool, shape = code(call.name), call.error.shape
    trigger, avoid, shown = f"When about to call {tool}", "", None
    tools: tuple[str, ...] = (call.name,)
    if not call.error.has(ErrorKind.REFUSED):
        first = _named_first(run, call)
        if first and _was_done(run, call, first):
            return None  # so it is not enough to call it
        if not first and not names_object(call.error):
            guideline = f'First do what {tool} asks for: "{shape}".'
            avoid = f"Calling {tool} again before that is done."
        elif first:
            how = OBJECT if names_object(call.error) else ""
            trigger, guideline, avoid = put_first(call, code(first), how=how)
            tools = (call.name, first)
        else:
            trigger, _, avoid = put_first(call, "what it asks for")
            guideline = f"First do what the condition says, with the thing that it names, then call {tool}."
            avoid = f"Calling {tool} again before that is done."
    else:
        shown = _shown_by(run, call)
        seen = f" {code(shown[1])} in the answer of {code(shown[0].name)} shows it." if shown else ""
        guideline = (
            f'First check whether this rule of the tool applies: "{shape}".{seen} If it does, do not make the call; '
            "say which rule forbids it and what is possible instead."
        )
        avoid = f"Calling {tool} anyway, or looking for a way around the rule."
        tools = (call.name, shown[0].name) if shown else tools
    return RuleMatch(
        rule="quoted_rule",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f'{tool} answered "{shape}" at step {call.index}'
            f"{f', although step {shown[0].index} had shown it before' if shown else ''}, and did not work later in "
            f"this run. {run.ending}"
        ),
        polarity="avoid" if call.error.has(ErrorKind.REFUSED) else "mixed",
        confidence=0.8 if shown or len(tools) > 1 else 0.7,
        citations=(
            *((run.cite(shown[0].step, shown[2]),) if shown else ()),
            run.cite(call.step, call.error.text),
        ),
        tools=tools,
    )


def _named_first(run: ReadRun, call: RunCall) -> str:
    """Return the tool that a condition speaks of: by two words of its name, or as "you have to open … first"."""
    assert call.error is not None
    others = [name for name in _other_tools(run, call) if not is_harmful(name)]
    verb = _VERB_FIRST.search(call.error.text)
    if verb and verb[1].lower() in others:
        return verb[1].lower()
    tool = best_named(call.error.text, others)
    return tool if speaks_of(call.error.text, tool) >= MIN_SHARED_WORDS else ""


def _was_done(run: ReadRun, call: RunCall, first: str) -> bool:
    """Return whether the other tool had been called before, with the thing that the error names if it names one."""
    assert call.error is not None
    before = [c for c in run.calls if c.name == first and c.index < call.index and not c.error]
    return any(not names_object(call.error) or concerns(call.error, c) for c in before)


def _other_tools(run: ReadRun, call: RunCall) -> list[str]:
    called = (c.name for other in (run, *run.family) for c in other.calls if not c.error)
    names = dict.fromkeys((*run.episode.tools, *called))
    return [name for name in names if name != call.name]


def _shown_by(run: ReadRun, call: RunCall) -> tuple[RunCall, str, str] | None:
    """Return the earlier answer that held the condition of a rule, the member that said so, and its value."""
    assert call.error is not None
    text = call.error.text.lower().replace("_", " ")
    for source in run.calls:
        if source.index >= call.index or source.error:
            continue
        for member, value in _STATED.findall(source.answer):
            plain = value.lower().replace("_", " ")
            if len(plain) >= MIN_FIELD_CHARS and re.search(rf"\b{re.escape(plain)}\b", text) and is_general(member):
                return source, member, value
    return None
