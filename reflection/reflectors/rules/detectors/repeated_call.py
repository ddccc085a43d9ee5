"""The same call was repeated, with the same error or the same answer."""

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.tools import is_read
from reflection.reflectors.rules.wording import code

FAILING_REPEATS = 2
ANSWERED_REPEATS = 3


def find(run: RunView) -> list[RuleMatch]:
    """Look for calls repeated with unchanged arguments."""
    matches = []
    done: list[Call] = []
    for call in run.calls:
        if any(call.same_as(other) for other in done):
            continue
        done.append(call)
        same = [other for other in run.calls if other.same_as(call) and other.answer == call.answer]
        if call.error and len(same) >= FAILING_REPEATS:
            matches.append(_failing(run, call, same))
        elif not call.error and len(same) >= ANSWERED_REPEATS and is_read(call.name) and not run.succeeded:
            matches.append(_answered(run, call, same))
    return matches


def _failing(run: RunView, call: Call, same: list[Call]) -> RuleMatch:
    tool = code(call.name)
    assert call.error is not None  # only failing calls come here
    last_resort = "tell the user what is missing" if run.turns else "go another way"
    worked = any(c.name == call.name and c.index > same[-1].index and not c.error for c in run.calls)
    return RuleMatch(
        rule="repeated_call",
        trigger=f'When {tool} has just answered "{call.error.shape}"',
        guideline=(
            "Do not send the same arguments again: the answer will be the same. Change what the error speaks of, look "
            f"the right value up with another tool, or {last_resort}, before the next {tool}."
        ),
        avoid=f"Repeating {tool} unchanged.",
        rationale=(
            f"{tool} was called {len(same)} times with the same arguments, from step {same[0].index} to step "
            f'{same[-1].index}, and answered "{call.error.shape}" every time'
            f"{'; it worked only after a change' if worked else ''}. {run.ending}"
        ),
        polarity="avoid" if not run.succeeded else "mixed",
        confidence=min(0.6 + 0.05 * len(same), 0.8),
        citations=tuple(run.cite(each.step, call.error.text) for each in same[:3]),
        tools=(call.name,),
    )


def _answered(run: RunView, call: Call, same: list[Call]) -> RuleMatch:
    tool = code(call.name)
    return RuleMatch(
        rule="repeated_call",
        trigger=f"When about to call {tool} with arguments it has already answered in this run",
        guideline=(
            f"Read the earlier answer again instead. If it did not help, change the arguments of {tool} or go on with "
            "another tool."
        ),
        rationale=(
            f"{tool} was called {len(same)} times with the same arguments and gave the same answer, from step "
            f"{same[0].index} to step {same[-1].index}; nothing came of it. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.55,
        citations=tuple(run.cite(each.step) for each in same[:3]),
        tools=(call.name,),
    )
