"""Two reports side by side: each arm with its success in both, and the paired difference where tasks are the same."""

from dataclasses import dataclass
from typing import Any

from evaluation.reports.comparison import compare, show
from evaluation.reports.report import show_success


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmPair:
    """An arm in both reports, as text; empty where a report lacks it."""

    arm: str
    before: str
    after: str
    difference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SuitePair:
    name: str
    arms: list[ArmPair]


def put_side_by_side(before: dict[str, Any], after: dict[str, Any]) -> list[SuitePair]:
    """Return every suite and arm of two reports; a report that is not finished has none."""
    old, new = _successes(before), _successes(after)
    differences = {}
    if before.get("suites") and after.get("suites"):
        differences = {(row["suite"], row["arm"]): show(row["difference"]) for row in compare(after, before)}
    suites: dict[str, list[ArmPair]] = {}
    for suite, arm in {**old, **new}:
        pair = ArmPair(
            arm=arm,
            before=old.get((suite, arm), ""),
            after=new.get((suite, arm), ""),
            difference=differences.get((suite, arm), ""),
        )
        suites.setdefault(suite, []).append(pair)
    return [SuitePair(name=name, arms=arms) for name, arms in suites.items()]


def _successes(results: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {
        (suite["name"], row["arm"]): show_success(row["success"])
        for suite in results.get("suites", [])
        for row in suite["arms"]
    }
