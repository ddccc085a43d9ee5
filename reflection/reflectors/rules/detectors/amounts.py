"""A tool refused a call because amounts do not add up to the total it names."""

from dataclasses import dataclass

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.tools import words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name, times

ROUNDING = 0.005


@dataclass(frozen=True, kw_only=True)
class _Mismatch:
    call: Call
    path: str
    entries: str  # the list whose length is the missing factor, or ""


def find(run: RunView) -> list[RuleMatch]:
    """Look for errors that name the sum of a numeric argument and a different total."""
    matches = []
    seen: set[str] = set()
    for call in run.calls:
        mismatch = _read(run, call)
        if mismatch and call.name not in seen:
            seen.add(call.name)
            matches.append(_explain(run, mismatch))
    return matches


def _read(run: RunView, call: Call) -> _Mismatch | None:
    if call.error is None or len(call.error.numbers) < 2:
        return None
    for path, values in call.leaves.items():
        if not all(isinstance(value, int | float) for value in values) or not is_general(path):
            continue
        paid = sum(values)
        others = [number for number in call.error.numbers if abs(number - paid) > ROUNDING]
        if len(others) == len(call.error.numbers) or not others or not paid:
            continue
        return _Mismatch(call=call, path=path, entries=_factor_list(run, call, others[0] / paid))
    return None


def _factor_list(run: RunView, call: Call, factor: float) -> str:
    """Return the only list argument whose length equals the factor between the totals, or ""."""
    lists = {
        name: value
        for name, value in call.arguments.items()
        if isinstance(value, list) and len(value) >= 2 and abs(factor - len(value)) < ROUNDING
    }
    if len(lists) > 1:
        later = "\n".join(
            f"{step.observation} {step.action.arguments if step.action else ''}"
            for step in run.episode.steps[call.index : call.index + 3]
        ).lower()
        lists = {name: value for name, value in lists.items() if f"per {words_of(name)[-1].rstrip('s')}" in later}
    return next(iter(lists)) if len(lists) == 1 else ""


def _explain(run: RunView, mismatch: _Mismatch) -> RuleMatch:
    call, tool, path = mismatch.call, code(mismatch.call.name), parameter_name(mismatch.path)
    assert call.error is not None  # only failing calls come here
    same = [c for c in run.calls if c.name == call.name and c.error and c.error.shape == call.error.shape]
    repeats = [c for c in same if c.index > call.index]
    fixed = next((c for c in run.calls if c.name == call.name and c.index > same[-1].index and not c.error), None)
    if mismatch.entries:
        entries = code(mismatch.entries)
        trigger = f"When about to call {tool} with {path} for more than one entry in {entries}"
        guideline = (
            f"Multiply the price of one by the number of {entries} and make {path} add up to exactly that total"
            f"{', which the user has agreed to' if run.turns else ''}, before the call. {tool} refuses anything else "
            f'with "{call.error.shape}".'
        )
        cause = f"the amount was that of one entry, and {entries} had more"
    else:
        trigger = f'When {tool} answers "{call.error.shape}"'
        guideline = (
            f"Take the total that the error names, work out {path} again so that the values add up to exactly that"
            f"{', tell the user the new total' if run.turns else ''}, and only then call {tool} again."
        )
        cause = f"the values of {path} added up to another total than the one the tool had reckoned"
    told = f" {tool} was called {times(len(repeats))} more and refused in the same way." if repeats else ""
    told += f" It worked at step {fixed.index} with another amount." if fixed else " It never worked in this run."
    return RuleMatch(
        rule="amounts",
        trigger=trigger,
        guideline=guideline,
        avoid=f"Calling {tool} again without having changed {path} to the total it asks for." if repeats else "",
        rationale=f"At step {call.index} {cause}.{told} {run.ending}",
        polarity="avoid" if run.failed and not fixed else "mixed" if run.failed else "works",
        confidence=0.95 if repeats else 0.85,
        citations=(
            run.cite(call.step, call.error.text),
            *(run.cite(each.step, each.error.text) for each in repeats[:2] if each.error),
            *((run.cite(fixed.step),) if fixed else ()),
        ),
        tools=(call.name,),
    )
