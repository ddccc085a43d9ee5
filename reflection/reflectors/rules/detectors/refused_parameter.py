"""An error names the parameter that a call lacks, or one that the tool does not have."""

import re
from typing import Any

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import MAX_ANSWER_CHARS
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general

MAX_FAILURES = 50
_ADDRESSES = ("url", "endpoint", "path", "uri")

_MISSING = re.compile(
    r"missing \d{1,2} required (?:positional |keyword-only )?arguments?: '(\w{1,60})'"
    r"|'(\w{1,60})' is a required property"
    r"|missing required (?:param(?:eter)?|argument|field|property|key)s?(?: in input)?:? ?['\"`]?(\w{1,60})"
    r"|(?:parameter|argument|field) ['\"`](\w{1,60})['\"`] is required"
    r"|\bthe ['\"`]?(\w{1,60})['\"`]? (?:field|parameter|argument|property) is (?:required|missing)"
    r"|['\"`](\w{1,60})['\"`] (?:parameter |field |argument )?(?:is required|is missing|must be (?:provided|specified))"
    r"|required (?:request |query )?(?:parameter|argument|field) ['\"`](\w{1,60})['\"`]"
    r"|\b(?:parameter|argument|field) (\w{1,60}) is (?:required|missing)"
    r"|you must (?:provide|specify|supply|include|pass)(?: an?| the)? ['\"`]?(\w{1,60})['\"`]? "
    r"(?:parameter|argument|field)"
    r"|(?:parameter|argument) ['\"`](\w{1,60})['\"`] (?:of type [^\n]{1,40} is required|is not present)"
    r"|param is missing or the value is empty: (\w{1,60})"
    r"|(?:^|[\s.'\"])(\w{1,60}): Field required",
    re.IGNORECASE,
)
_UNEXPECTED = re.compile(
    r"unexpected keyword argument '(\w{1,60})'|\('(\w{1,60})' was unexpected\)"
    r"|(?:unknown|unexpected|unrecogni[sz]ed|unsupported) (?:parameter|argument|field|property|key)s?:? "
    r"?['\"`](\w{1,60})['\"`]"
    r"|unrecogni[sz]ed request arguments? supplied: (\w{1,60})|unknown (?:name|parameter in input:) \\?\"(\w{1,60})",
    re.IGNORECASE,
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such errors, whether the run gave the parameter right in the end or not."""
    matches: dict[str, RuleMatch] = {}
    for failed in [call for call in run.calls if call.error and not call.command and not code_of(call)][:MAX_FAILURES]:
        if match := _explain(run, failed):
            matches.setdefault(match.trigger, match)
    return list(matches.values())


def _explain(run: ReadRun, failed: RunCall) -> RuleMatch | None:
    missing, extra = _named(_MISSING, failed), _named(_UNEXPECTED, failed)
    name = missing or extra
    tool, parameter, fixed = code(failed.name), code(name), run.next_success(failed)
    if not name or not is_general(parameter):
        return None
    body = _body_of(failed)
    given, later = _members_of(failed, body), _members_of(fixed, body) if fixed else {}
    if body:
        parameter, tool = f"{parameter} in {code(body)}", f"{tool}{_about(failed)}"
    if missing and missing not in given and (fixed is None or missing in later):
        trigger, guideline = f"When about to call {tool} without {parameter}", f"Pass {parameter}: {tool} requires it."
    elif extra in given and (fixed is None or extra not in later):
        trigger = f"When about to call {tool} with {parameter}"
        guideline = f"Leave out {parameter}: {tool} has no such parameter."
    else:
        return None
    end = f"it worked at step {fixed.index}" if fixed else "the run did not correct it"
    quote = next((line.strip() for line in failed.output.splitlines() if name in line), "")
    return RuleMatch(
        rule="refused_parameter",
        trigger=trigger,
        guideline=guideline,
        rationale=f"At step {failed.index} {tool} refused the call over {parameter}; {end}. {run.ending}",
        polarity="mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, quote), *((run.cite(fixed.step),) if fixed else ())),
        tools=(failed.name,),
    )


def _named(pattern: re.Pattern[str], failed: RunCall) -> str:
    match = pattern.search(failed.output[:MAX_ANSWER_CHARS])
    return next((name for name in match.groups() if name), "") if match else ""


def _body_of(failed: RunCall) -> str:
    """Return the argument that holds the body of an HTTP request, "" in calls of other kinds."""
    bodies = [name for name, value in failed.arguments.items() if isinstance(value, dict)]
    return bodies[0] if len(bodies) == 1 and _address_of(failed) else ""


def _members_of(call: RunCall, body: str) -> dict[str, Any]:
    members = call.arguments.get(body) if body else call.arguments
    return members if isinstance(members, dict) else {}


def _address_of(call: RunCall) -> str:
    return next((value for name in _ADDRESSES if isinstance(value := call.arguments.get(name), str)), "")


def _about(failed: RunCall) -> str:
    """Return which resource a request is about, if the last part of its address is a word."""
    last = _address_of(failed).partition("?")[0].rstrip("/").rpartition("/")[2]
    return f" for {code(last)}" if re.fullmatch(r"[a-z_-]{3,40}", last) else ""
