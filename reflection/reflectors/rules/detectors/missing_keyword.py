"""Code was refused for want of something, and ran once a call in it passed an argument of that name."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import says_something
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, listed

MAX_CODE_CHARS = 8000
MAX_LATER_CALLS = 6
MAX_FAILURES = 50

_WANT = re.compile(
    r"missing|required|requires?\b|not (?:provided|given|specified|authori[sz]ed)|must (?:be|have|pass)", re.I
)
_KEYWORD = re.compile(r"\b([A-Za-z_]\w{1,60})\((?=([^()]{0,400}))")
_NAME = re.compile(r"\b([A-Za-z_]\w{1,40}) ?=(?!=)")


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such arguments, each once for a function."""
    matches: dict[str, RuleMatch] = {}
    failures = [call for call in run.calls if call.error and not call.command and code_of(call)]
    for failed in failures[:MAX_FAILURES]:
        if _WANT.search(failed.output[:MAX_CODE_CHARS]) and (match := _explain(run, failed)):
            matches.setdefault(match.trigger, match)
    return list(matches.values())


def _explain(run: ReadRun, failed: RunCall) -> RuleMatch | None:
    assert failed.error is not None
    before = _keywords(code_of(failed))
    said = failed.output[:MAX_CODE_CHARS].lower().replace("_", " ").replace("\\n", " ")
    later = [call for call in run.calls if call.index > failed.index and call.name == failed.name]
    for fixed in later[:MAX_LATER_CALLS]:
        if fixed.error:
            continue
        for function, names in _keywords(code_of(fixed)).items():
            # The failing code called the same function without it.
            added = names - before.get(function, names)
            wanted = sorted(
                name for name in added if re.search(rf"\b{re.escape(name.lower().replace('_', ' '))}\b", said)
            )
            if wanted and all(is_general(code(name)) for name in (function, *wanted)):
                return _make_match(run, failed, fixed, function=function, names=wanted)
    return None


def _make_match(run: ReadRun, failed: RunCall, fixed: RunCall, *, function: str, names: list[str]) -> RuleMatch:
    assert failed.error is not None
    quote = next((line.strip() for line in failed.output.splitlines() if _WANT.search(line)), failed.error.text)
    shape = failed.error.shape
    answer = f', and answers "{shape}" without it' if says_something(shape) and is_general(f'"{shape}"') else ""
    wanted = listed([code(name) for name in names])
    return RuleMatch(
        rule="missing_keyword",
        trigger=f"When about to call {code(function)} in code for {code(failed.name)}",
        guideline=f"Pass {wanted}: {code(function)} requires it{answer}.",
        avoid=f"Calling {code(function)} without {listed([code(name) for name in names], last='or')}.",
        rationale=(
            f"At step {failed.index} code that called {code(function)} without {wanted} failed; with it, it ran at "
            f"step {fixed.index}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.74,
        citations=(run.cite(failed.step, quote), run.cite(fixed.step)),
        tools=(failed.name,),
    )


def _keywords(text: str) -> dict[str, set[str]]:
    """Return the names of the keyword arguments in a piece of code, by function."""
    names: dict[str, set[str]] = {}
    for function, arguments in _KEYWORD.findall(text[:MAX_CODE_CHARS]):
        names.setdefault(function, set()).update(_NAME.findall(arguments))
    return names
