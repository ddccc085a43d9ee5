"""A run was ended by a limit: what used up its steps."""

from collections import Counter
from itertools import groupby

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code

MIN_CALLS = 8
MIN_SHARE = 0.4


def find(run: ReadRun) -> list[RuleMatch]:
    """Name the largest use of steps in a run that a limit ended: failing calls, or one tool again and again."""
    if not run.cut_off or run.succeeded or len(run.calls) < MIN_CALLS:
        return []
    failing = [call for call in run.calls if call.error]
    if len(failing) >= MIN_SHARE * len(run.calls):
        return [_failing(run, failing)]
    label, count = Counter(call.label for call in run.calls).most_common(1)[0]
    series = [list(calls) for name, calls in groupby(run.calls, key=lambda call: call.label) if name == label]
    longest = max(series, key=len)
    if count >= MIN_SHARE * len(run.calls) and len(longest) >= MIN_CALLS and longest[0].only_reads:
        return [_one_tool(run, longest)]
    return []


def _failing(run: ReadRun, failing: list[RunCall]) -> RuleMatch:
    return RuleMatch(
        rule="cut_off",
        trigger="When several calls in a row have failed and the number of steps is limited",
        guideline=(
            "Stop trying variants. Read the tool's description or an answer that worked, decide what is wrong, and "
            "then make one call; if it fails too, hand in what is done so far and say what is missing."
        ),
        avoid="Spending the steps that are left on further guesses.",
        rationale=(
            f"The run was ended by a limit ({run.cut_off}); {len(failing)} of its {len(run.calls)} calls had "
            f"failed. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.6,
        citations=tuple(run.cite(c.step, c.error.text) for c in (failing[0], failing[-1]) if c.error),
    )


def _one_tool(run: ReadRun, series: list[RunCall]) -> RuleMatch:
    tool = code(series[0].label)
    return RuleMatch(
        rule="cut_off",
        trigger=f"When {tool} has been called many times in a row without getting closer to the goal",
        guideline=(
            f"Narrow the search with another tool or with other arguments instead of calling {tool} again, and keep "
            "enough steps to hand in a result."
        ),
        avoid=f"Going through everything with {tool}.",
        rationale=(
            f"The run was ended by a limit ({run.cut_off}); {len(series)} calls of {tool} in a row, from step "
            f"{series[0].index} to step {series[-1].index}, used up most of it. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.6,
        citations=(run.cite(series[0].step, series[0].quotable, last=series[-1].step),),
        tools=(series[0].name,),
    )
