"""A tool cannot be used here whatever it is asked: the account has no access to it, or what it calls is gone."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind, says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_harmful, words_of
from reflection.reflectors.rules.wording import code, is_general, times

MIN_CALLS = 2
MAX_LATER_CALLS = 6

# Says by itself that other arguments would not help …
_GONE = re.compile(
    r"not subscribed|no longer (?:available|supported|maintained|exists)|discontinued|has been (?:shut ?down|retired)"
    r"|(?:api|endpoint|service) (?:(?:is )?(?:deprecated|disabled)|(?:doesn't|does not|do not) exists?)"
    r"|please add an environment variable|unable to locate credentials|could not automatically determine credentials"
    r"|(?:api[ _-]?key|credentials?|token) (?:is |are |was |were |has )?not (?:been )?(?:set|configured|found)\b"
    r"|exceeded your current quota|insufficient_quota|not implemented(?: yet)?\b|under maintenance"
    r"|(?:disabled|not available) for your (?:subscription|plan|account)",
    re.IGNORECASE,
)
# … or may be about these arguments alone, until others are answered in the same way.
_NO_ACCESS = re.compile(
    r"\bunauthori[sz]ed\b|(?:invalid|missing|expired|incorrect|wrong) (?:api|access|subscription)[ _-]?(?:key|token)"
    r"|(?:api|access)[ _-]?(?:key|token) (?:is |was |has )?(?:invalid|missing|expired|required|not valid)"
    r"|\b(?:bad|invalid)[ _]credentials|\binvalid_auth\b|authentication (?:failed|required)"
    r"|\bforbidden\b|access denied|not (?:authori[sz]ed|entitled) to (?:access|use)|blocked",
    re.IGNORECASE,
)
_LOGIN = frozenset(["login", "log", "signin", "sign", "auth", "authenticate", "token", "key", "connect"])


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for tools that never worked in a run, for want of access."""
    matches = []
    by_name: dict[str, list[RunCall]] = {}
    for call in run.calls:
        if not call.command and not code_of(call):
            by_name.setdefault(call.name, []).append(call)
    for name, calls in by_name.items():
        if is_general(code(name)) and all(_is_refused(call) for call in calls):
            match = _explain(run, calls)
            matches += [match] if match else []
    return matches


def _is_refused(call: RunCall) -> bool:
    return call.error is not None and bool(_GONE.search(call.error.text) or _NO_ACCESS.search(call.error.text))


def _explain(run: ReadRun, calls: list[RunCall]) -> RuleMatch | None:
    first = calls[0]
    assert first.error is not None
    if not _GONE.search(first.error.text):
        has_login = any(not _LOGIN.isdisjoint(words_of(name)) for name in (*run.episode.tools, *_called(run)))
        asked = {repr(call.arguments) for call in calls}
        # Where one can log in, that comes first.
        if has_login or len(asked) < MIN_CALLS or first.error.has(ErrorKind.PRECONDITION):
            return None
    shape = first.error.shape
    if not says_something(shape) and not _GONE.search(shape):
        return None
    other = _other_that_worked(run, calls[-1])
    tool = code(first.name)
    instead = f"Use {code(other.name)} instead" if other else "Use another tool, or say that this cannot be had here"
    return RuleMatch(
        rule="closed_tool",
        trigger=f"When about to call {tool}",
        guideline=f'{instead}: {tool} answers "{shape}" here, whatever it is asked.',
        avoid=f"Calling {tool} again with other arguments.",
        rationale=(
            f"{tool} was called {times(len(calls))}, first at step {first.index}, and never worked. "
            + (f"{code(other.name)} at step {other.index} worked with the same values. " if other else "")
            + run.ending
        ),
        polarity="mixed",
        confidence=0.75,
        citations=(
            *(run.cite(call.step, call.error.text) for call in calls[:2] if call.error),
            *((run.cite(other.step, other.quotable),) if other else ()),
        ),
        tools=(first.name, *((other.name,) if other else ())),
    )


def _called(run: ReadRun) -> set[str]:
    return {call.name for call in run.calls}


def _other_that_worked(run: ReadRun, failed: RunCall) -> RunCall | None:
    """Return a later call of another tool with one of the same values."""
    values = {str(value) for group in failed.leaves.values() for value in group if len(str(value)) > 2}
    later = [call for call in run.calls if call.index > failed.index][:MAX_LATER_CALLS]
    for call in later:
        is_safe = not call.error and not call.command and not is_harmful(call.name) and is_general(code(call.name))
        if is_safe and not values.isdisjoint(str(value) for group in call.leaves.values() for value in group):
            return call
    return None
