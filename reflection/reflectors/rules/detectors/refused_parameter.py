"""An error names the parameter that a call lacks, or one that the tool does not have."""

import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import MAX_ANSWER_CHARS
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general

MAX_FAILURES = 50

_MISSING = re.compile(
    r"missing \d{1,2} required (?:positional |keyword-only )?arguments?: '(\w{1,60})'"
    r"|'(\w{1,60})' is a required property"
    r"|missing required (?:parameter|argument|field|property|key)s?:? ?['\"`]?(\w{1,60})"
    r"|(?:parameter|argument|field) ['\"`](\w{1,60})['\"`] is required"
    r"|\bthe ['\"`]?(\w{1,60})['\"`]? (?:field|parameter|argument|property) is (?:required|missing)"
    r"|['\"`](\w{1,60})['\"`] (?:parameter |field |argument )?(?:is required|is missing|must be (?:provided|specified))"
    r"|required (?:request |query )?(?:parameter|argument|field) ['\"`](\w{1,60})['\"`]"
    r"|\b(?:parameter|argument|field) (\w{1,60}) is (?:required|missing)",
    re.IGNORECASE,
)
_UNEXPECTED = re.compile(
    r"unexpected keyword argument '(\w{1,60})'|\('(\w{1,60})' was unexpected\)"
    r"|(?:unknown|unexpected|unrecogni[sz]ed|unsupported) (?:parameter|argument|field|property|key)s?:? "
    r"?['\"`](\w{1,60})['\"`]",
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
    if missing and missing not in failed.arguments and (fixed is None or missing in fixed.arguments):
        trigger, guideline = f"When about to call {tool} without {parameter}", f"Pass {parameter}: {tool} requires it."
    elif extra in failed.arguments and (fixed is None or extra not in fixed.arguments):
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
