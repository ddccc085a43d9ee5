"""Which mix of lessons is best for which kind of task, learnt from an evaluation (ERL 1.4).

Lessons from failures alone are best for some kinds of task and harm others, so the mix is free unless a run shows that
one of its halves is better alone: more tasks gained than lost against the free mix, by an exact sign test whose level
is divided among all comparisons of the run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from evaluation.errors import EvaluationError

LEVEL = 0.05
FEWEST_TASKS = 10
WHOLE = ""  # every family without a quota of its own
# What an arm leaves out is what the quota forbids: the largest shares of works and of avoid.
HALVES: Mapping[str, tuple[float | None, float | None]] = {"failures": (0.0, None), "successes": (None, 0.0)}


@dataclass(frozen=True, kw_only=True, slots=True)
class LearntQuota:
    """What a run says of a family: how each mix did, and the one that is shown to be better than the free mix.

    `best` is "mixed" where nothing is shown. `p` is the smallest of the comparisons, not corrected.
    """

    family: str
    tasks: int
    success: dict[str, float]
    best: str
    p: float

    @property
    def shares(self) -> tuple[float | None, float | None]:
        """Return the largest shares of lessons that say what works and of those that say what to avoid."""
        return HALVES.get(self.best, (None, None))


def learn_quotas(results: dict[str, Any], *, suite: str) -> list[LearntQuota]:
    """Return what a finished run says of all tasks together and of each family with enough of them.

    Raises:
        EvaluationError: the run has no such suite, or did not ask both the mix and a half of it.
    """
    found = next((each for each in results.get("suites", []) if each["name"] == suite), None)
    if found is None:
        raise EvaluationError(f"The run has no suite {suite}. Name one of it with --suite.")
    per_task: dict[str, list[float]] = found.get("per_task", {})
    mixed = next((name for name in per_task if all(f"{name}:{half}" in per_task for half in HALVES)), None)
    if mixed is None or not found.get("arms"):
        raise EvaluationError(
            f"The run cannot say which mix is best: {suite} did not try the same mode with both halves. Run it with "
            "--arms hybrid:5 hybrid:5:failures hybrid:5:successes"
            + (" and --environment, since recorded runs cannot react to a lesson." if suite == "yours" else ".")
        )
    places = _group(found.get("families") or [WHOLE] * len(per_task[mixed]))
    comparisons = len(places) * len(HALVES)
    return [_learn(family, of_family, per_task, mixed, comparisons) for family, of_family in places.items()]


def get_sign_p(differences: Iterable[float]) -> float:
    """Return the two-sided p of as many gains and losses, if each were as likely as the other."""
    signs = [value > 0 for value in differences if value]
    least = min(sum(signs), len(signs) - sum(signs))
    return min(1.0, 2.0 * sum(comb(len(signs), count) for count in range(least + 1)) / 2.0 ** len(signs))


def _group(families: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of the tasks of each family that has enough of them, those of all tasks first."""
    places: dict[str, list[int]] = {}
    for place, family in enumerate(families):
        places.setdefault(family, []).append(place)
    named = {name: of for name, of in sorted(places.items()) if name and len(of) >= FEWEST_TASKS}
    return {WHOLE: list(range(len(families))), **named}


def _learn(
    family: str, places: Sequence[int], per_task: Mapping[str, Sequence[float]], mixed: str, comparisons: int
) -> LearntQuota:
    of_mix = {"mixed": [per_task[mixed][place] for place in places]}
    of_mix |= {half: [per_task[f"{mixed}:{half}"][place] for place in places] for half in HALVES}
    success = {name: sum(values) / len(values) if values else 0.0 for name, values in of_mix.items()}
    tests = {
        half: get_sign_p(one - other for one, other in zip(of_mix[half], of_mix["mixed"], strict=True))
        for half in HALVES
    }
    best = max(HALVES, key=lambda half: success[half])
    is_shown = success[best] > success["mixed"] and tests[best] * comparisons <= LEVEL and len(places) >= FEWEST_TASKS
    return LearntQuota(
        family=family,
        tasks=len(places),
        success=success,
        best=best if is_shown else "mixed",
        p=min(tests.values()),
    )
