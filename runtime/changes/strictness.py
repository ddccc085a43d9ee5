"""Which rules of an agent a change loosens.

Rules are ordered by what they allow: others are at least as strict where they refuse every call that these refuse. That
is decided for each kind by what the rules say, and not by trying. What has no place in the order, such as a rule after
which a run ends, counts as looser where it changes: a run that ends earlier makes fewer checks, one that ends later
more calls. Which calls people approve is no matter of degree; no change touches that (`kinds.check_untouched`).
"""

from collections.abc import Sequence
from typing import Any

from runtime.rules import (
    AlwaysAllow,
    Conditional,
    ConstrainChildTools,
    ContinueLoop,
    ExitLoop,
    MaxCountPerRun,
    MaxCountPerStep,
    ParentLastTool,
    RequiresApproval,
    RunFirst,
    read_rules,
)

_OF_PEOPLE = (RequiresApproval, AlwaysAllow)
_UNORDERED = (ExitLoop, ContinueLoop)


def find_looser(before: Sequence[Any], after: Sequence[Any]) -> list[str]:
    """Return what rules no longer demand, or demand in a way that cannot be compared, such as `run_first of look`."""
    old, new = [[rule for rule in read_rules(rules) if not isinstance(rule, _OF_PEOPLE)] for rules in (before, after)]
    looser = [rule for rule in old if not _holds(rule, new)]
    starts = any(isinstance(rule, RunFirst) for rule in old)
    looser += [
        rule
        for rule in new
        if rule not in old and (isinstance(rule, _UNORDERED) or (starts and isinstance(rule, RunFirst)))
    ]
    return list(dict.fromkeys(f"{rule.type} of {rule.tool}" for rule in looser))


def _holds(rule: Any, rules: Sequence[Any]) -> bool:
    """Tell whether all that a rule refuses is refused by these too."""
    of_tool = [other for other in rules if other.type == rule.type and other.tool == rule.tool]
    match rule:
        case RunFirst():  # that there is one at all; which others there are is seen among the new ones
            return any(isinstance(other, RunFirst) for other in rules)
        case MaxCountPerRun() | MaxCountPerStep():
            return any(other.count <= rule.count for other in of_tool)
        case ConstrainChildTools():
            return any(set(other.children) <= set(rule.children) for other in of_tool)
        case ParentLastTool():
            return set(rule.children) <= {child for other in of_tool for child in other.children}
        case Conditional():
            stricter = rule.model_copy(update={"require_outcome": True})
            return any(other in (rule, stricter) for other in of_tool)
        case _:
            return rule in rules
