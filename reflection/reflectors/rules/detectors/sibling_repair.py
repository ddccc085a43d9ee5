"""A call failed and never worked, and another run of the family repaired the same error of the same tool."""

from collections import defaultdict
from dataclasses import replace

from reflection.reflectors.rules.detectors import RuleMatch, changed_argument, missing_prerequisite
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.value_forms import fault_of
from reflection.reflectors.rules.wording import code

MAX_FAILURES = 20


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for failing calls without a repair in this run, and for the repair in others. The lesson has its words."""
    if run.succeeded or not run.family:
        return []
    failing: dict[tuple[str, str], RunCall] = {}
    for call in run.calls:
        if call.error and call.command is None and not call.is_edit and not call.error.has(ErrorKind.TRANSIENT):
            failing.setdefault((call.name, call.error.shape), call)
    unrepaired = [call for call in list(failing.values())[:MAX_FAILURES] if not run.next_success(call)]
    return [match for call in unrepaired if (match := _repair_of(run, call))]


def _repair_of(run: ReadRun, call: RunCall) -> RuleMatch | None:
    """Return the repair that most of the other runs used."""
    assert call.error is not None
    repairs: dict[tuple[str, str], list[RuleMatch]] = defaultdict(list)
    for other in run.family:
        if not any(c.name == call.name and c.error and c.error.shape == call.error.shape for c in other.calls):
            continue
        texts = {(m.trigger, m.guideline): m for m in _repairs_in(other) if _fits(run, call, other, m)}
        for text, match in texts.items():
            repairs[text].append(match)
    # The repair that most other runs show is the least likely to have worked by chance.
    best = max(repairs.values(), key=len, default=None)
    if best is None:
        return None
    count = len(best)
    return replace(
        best[0],
        rationale=(
            f'At step {call.index} {code(call.name)} answered "{call.error.shape}", and it did not work later in this '
            f"run. {'Another run' if count == 1 else f'{count} other runs'} of its family got the same answer and got "
            f"past it in this way. {run.ending}"
        ),
        # A little below the same repair seen in this run itself.
        confidence=best[0].confidence - 0.02,
        citations=(run.cite(call.step, call.error.text),),
    )


def _repairs_in(run: ReadRun) -> list[RuleMatch]:
    return [*changed_argument.find(run), *missing_prerequisite.find(run)]


def _fits(run: ReadRun, call: RunCall, other: ReadRun, match: RuleMatch) -> bool:
    """Return whether the call that another run repaired had failed in the same way, and had the same fault.

    The first citation of a repair is the failing call and the last one the call that worked.
    """
    assert call.error is not None
    at = {sibling_call.index: sibling_call for sibling_call in other.calls}
    failed, fixed = at.get(match.citations[0].first_step or 0), at.get(match.citations[-1].first_step or 0)
    if failed is None or fixed is None or failed.error is None or fixed.error or failed is fixed:
        return False
    if (failed.name, failed.error.shape) != (call.name, call.error.shape):
        return False
    if match.rule == "missing_prerequisite":
        first = at[match.citations[1].first_step or 0]
        done = [c for c in run.calls if c.index < call.index and c.name == first.name and not c.error]
        return not any(c.same_as(first) or missing_prerequisite.concerns(call.error, c) for c in done)
    changed = [path for path in failed.leaves if failed.leaves[path] != fixed.leaves.get(path)]
    # The value comes from a lookup.
    if len(match.tools) > 1:
        return bool(changed) and all(
            _is_made_up(run, call, path) or not _is_made_up(other, failed, path) for path in changed
        )
    added = [path for path in fixed.leaves if path not in failed.leaves]
    return not any(path in call.leaves for path in added) and all(
        path in call.leaves and fault_of(call.leaves[path][0]) == fault_of(failed.leaves[path][0]) for path in changed
    )


def _is_made_up(run: ReadRun, call: RunCall, path: str) -> bool:
    """Return whether a value stands in no earlier answer and was said by no person, in any spelling."""
    value = call.leaves.get(path, ("",))[0]
    if not isinstance(value, str) or value.isdigit():
        # Its type may be what is wrong, not its value.
        return False
    plain = "".join(char for char in value.lower() if char.isalnum())
    shown = "".join(char for char in run.text_before(call.index).lower() if char.isalnum())
    return bool(plain) and plain not in shown
