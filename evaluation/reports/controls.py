"""Controls: arms with lessons that are not for the task at hand, so that they must do worse than the main arm."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.reports.statistics import paired_difference

MUST_LOSE = ("random", "shuffled", "flipped")


def check_controls(per_task: Mapping[str, Sequence[float]], main: str, *, seed: int) -> list[dict[str, Any]]:
    """Return a check for each control: whether the main arm does better on the same tasks, beyond chance.

    There is none unless the main arm does better than no lessons: only then is there an uplift to lose.
    """
    if main not in per_task or not per_task[main]:
        return []
    if not paired_difference(per_task[main], per_task["none"], seed=seed).low > 0:
        return []
    checks = []
    for name, values in per_task.items():
        if not name.startswith(MUST_LOSE) or name == main:
            continue
        ahead = paired_difference(per_task[main], values, seed=seed)
        says = f"{main} solves {100 * ahead.mean:+.1f} points against {name}, 95% between {100 * ahead.low:+.1f} and "
        checks.append(
            {
                "name": f"{name} does worse",
                "passed": ahead.low > 0,
                "says": f"{says}{100 * ahead.high:+.1f}.",
                "control": name,
            }
        )
    return checks
