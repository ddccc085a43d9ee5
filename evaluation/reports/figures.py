"""Figures as reported: rounded, with interval, n and what they can show."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.reports.statistics import (
    Estimate,
    bootstrap_mean,
    paired_difference,
    smallest_visible_difference,
    tasks_needed,
)

DECIMALS = 4


def rounded(value: Any) -> float:
    """Round to four decimals: more would be noise, and would differ between processors."""
    # Adding 0.0 turns minus zero into zero.
    return round(float(value), DECIMALS) + 0.0


def estimate_json(estimate: Estimate) -> dict[str, float]:
    """Return an estimate for the report; without tasks it has only n."""
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
    """Return an arm's success and paired uplift, with the tasks it gained and lost against the control."""
    differences = [treated_unit - other for treated_unit, other in zip(treated, control, strict=True)]
    return {
        "arm": name,
        "about": about,
        "n": len(treated),
        "success": estimate_json(bootstrap_mean(treated, seed=seed, bounds=(0, 1))),
        "uplift": estimate_json(paired_difference(treated, control, seed=seed)),
        "gained": rounded(sum(value for value in differences if value > 0)),
        "lost": rounded(-sum(value for value in differences if value < 0)),
    }


def price_gain(spent: float, gained: float) -> float | None:
    """Return the cost of one more solved task: extra spending per task over the uplift. None without a gain."""
    return round(spent / gained, 6) if gained > 0 and spent > 0 else None


def power_note(n: int) -> str:
    """Say which differences `n` tasks can show."""
    if n < 2:
        return "One task shows nothing."
    points = 100 * smallest_visible_difference(n)
    note = f"With {n} tasks, differences below about ±{points:.1f} points do not show (one pair in five differing)."
    if points > 5:
        note += f" A difference of 5 points needs about {tasks_needed(0.05)} tasks."
    return note


def describe_blocks(tokens: Sequence[int], lessons: Sequence[int]) -> dict[str, float]:
    """Return how large an arm's context blocks are, and how often it gave no lesson."""
    return {
        "tokens_mean": rounded(np.mean(tokens)),
        "tokens_p95": rounded(np.percentile(tokens, 95)),
        "lessons_mean": rounded(np.mean(lessons)),
        "abstained": rounded(np.mean([n == 0 for n in lessons])),
    }


def estimate_curve(
    points: Mapping[int, Sequence[float]], control: Sequence[float], *, seed: int
) -> list[dict[str, Any]]:
    """Return success and uplift by number of earlier tasks; no uplift where a limit left tasks out."""
    return [
        {
            "x": stop,
            "success": estimate_json(bootstrap_mean(values, seed=seed, bounds=(0, 1))),
            "uplift": estimate_json(paired_difference(values, control, seed=seed))
            if len(values) == len(control)
            else {"n": 0},
        }
        for stop, values in sorted(points.items())
    ]
