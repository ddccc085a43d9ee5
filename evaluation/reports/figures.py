"""Figures as they are reported: rounded, with interval, n and what they can show."""

import math
from collections.abc import Sequence
from typing import Any

from evaluation.reports.statistics import (
    Estimate,
    bootstrap_mean,
    paired_difference,
    smallest_visible_difference,
    tasks_needed,
)

DECIMALS = 4


def rounded(value: Any) -> float:
    """Return a number to four decimals: more would be noise, and differ between processors."""
    return round(float(value), DECIMALS) + 0.0  # no minus zero


def estimate_json(estimate: Estimate) -> dict[str, float]:
    """Return an estimate for a report; without tasks it has only n."""
    if math.isnan(estimate.mean):
        return {"n": 0}
    return {
        "mean": rounded(estimate.mean),
        "low": rounded(estimate.low),
        "high": rounded(estimate.high),
        "n": estimate.n,
    }


def compare_arm(
    name: str, *, about: str, treated: Sequence[float], control: Sequence[float], seed: int
) -> dict[str, Any]:
    """Return success and paired uplift of an arm, with the tasks it gained and lost against the control."""
    differences = [one - other for one, other in zip(treated, control, strict=True)]
    return {
        "arm": name,
        "about": about,
        "n": len(treated),
        "success": estimate_json(bootstrap_mean(treated, seed=seed)),
        "uplift": estimate_json(paired_difference(treated, control, seed=seed)),
        "gained": rounded(sum(value for value in differences if value > 0)),
        "lost": rounded(-sum(value for value in differences if value < 0)),
    }


def price_gain(spent: float, gained: float) -> float | None:
    """Return what one more solved task costs: what an arm spends more a task, over its uplift; none without a gain."""
    return round(spent / gained, 6) if gained > 0 and spent > 0 else None


def power_note(n: int) -> str:
    """Say what so many tasks can show at all."""
    if n < 2:
        return "One task shows nothing."
    points = 100 * smallest_visible_difference(n)
    note = f"With {n} tasks, differences below about ±{points:.1f} points do not show (one pair in five differing)."
    if points > 5:
        note += f" A difference of 5 points needs about {tasks_needed(0.05)} tasks."
    return note
