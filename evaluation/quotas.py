"""Learn from an evaluation which mix of lessons works best for each family of tasks (ERL 1.4).

Lessons from failures alone are best for some families and harm others. So the mix stays free unless a run shows that
one half alone is better: it gains more tasks than it loses against the free mix, in an exact sign test with the level
divided by the number of comparisons.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from evaluation.errors import EvaluationError

LEVEL = 0.05
MIN_TASKS = 10
ALL_FAMILIES = ""  # the quota for every family without its own
# Each half with the largest shares of "works" and "avoid" lessons that its quota allows
HALVES: Mapping[str, tuple[float | None, float | None]] = {"failures": (0.0, None), "successes": (None, 0.0)}


@dataclass(frozen=True, kw_only=True, slots=True)
class LearntQuota:
    """What a run shows about a family: the success of each mix, and the best one.

    `best` is "mixed" unless a half is shown to be better. `p` is the smallest of the comparisons, uncorrected.
    """

    family: str
    tasks: int
    success: dict[str, float]
    best: str
    p: float

    @property
    def shares(self) -> tuple[float | None, float | None]:
        """Return the largest allowed shares of "works" and of "avoid" lessons."""
        return HALVES.get(self.best, (None, None))


def learn_quotas(results: dict[str, Any], *, suite: str) -> list[LearntQuota]:
    """Return what a finished run shows about all tasks together and about each family with enough tasks.

    Raises:
        EvaluationError: the run lacks the suite, or did not try a mode both mixed and in halves.
    """
    found = next((each for each in results.get("suites", []) if each["name"] == suite), None)
    if found is None:
        raise EvaluationError(f"The run has no suite {suite}. Name one of its suites with --suite.")
    per_task: dict[str, list[float]] = found.get("per_task", {})
    mixed = next((name for name in per_task if all(f"{name}:{half}" in per_task for half in HALVES)), None)
    if mixed is None or not found.get("arms"):
        raise EvaluationError(
            f"The run cannot show which mix is best: {suite} did not try the same mode with both halves. Run it with "
            "--arms hybrid:5 hybrid:5:failures hybrid:5:successes"
            + (" and --environment, since recorded runs cannot react to a lesson." if suite == "yours" else ".")
        )
    positions = _group(found.get("families") or [ALL_FAMILIES] * len(per_task[mixed]))
    comparisons = len(positions) * len(HALVES)
    return [_learn(family, of_family, per_task, mixed, comparisons) for family, of_family in positions.items()]


def get_sign_p(differences: Iterable[float]) -> float:
    """Return the two-sided p-value of the sign test: gains against losses, zeros ignored."""
    signs = [value > 0 for value in differences if value]
    least = min(sum(signs), len(signs) - sum(signs))
    return min(1.0, 2.0 * sum(comb(len(signs), count) for count in range(least + 1)) / 2.0 ** len(signs))


def _group(families: Sequence[str]) -> dict[str, list[int]]:
    """Return the task positions of all families together, then of each family with enough tasks."""
    positions: dict[str, list[int]] = {}
    for position, family in enumerate(families):
        positions.setdefault(family, []).append(position)
    named = {name: of for name, of in sorted(positions.items()) if name and len(of) >= MIN_TASKS}
    return {ALL_FAMILIES: list(range(len(families))), **named}


def _learn(
    family: str, positions: Sequence[int], per_task: Mapping[str, Sequence[float]], mixed: str, comparisons: int
) -> LearntQuota:
    of_mix = {"mixed": [per_task[mixed][position] for position in positions]}
    of_mix |= {half: [per_task[f"{mixed}:{half}"][position] for position in positions] for half in HALVES}
    success = {name: sum(values) / len(values) if values else 0.0 for name, values in of_mix.items()}
    tests = {
        half: get_sign_p(one - other for one, other in zip(of_mix[half], of_mix["mixed"], strict=True))
        for half in HALVES
    }
    best = max(HALVES, key=lambda half: success[half])
    is_shown = success[best] > success["mixed"] and tests[best] * comparisons <= LEVEL and len(positions) >= MIN_TASKS
    return LearntQuota(
        family=family,
        tasks=len(positions),
        success=success,
        best=best if is_shown else "mixed",
        p=min(tests.values()),
    )
