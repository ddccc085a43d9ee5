"""The plan of an experiment: what is measured, how, and what decides. It is written down before the first run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any, Self

from django.db.models import TextChoices

from evaluation.errors import PlanInvalid
from evaluation.sequential import units_in_total

SEQUENTIAL_COST = 1.6  # times the planned size, for the same power with a look after every run (bench)
THOUSANDTHS = 1000  # what shares of units are counted in
FEWEST_FOR_MIXTURE = 200  # units in total; smaller experiments use the exact e-process


class Metric(TextChoices):
    SUCCESS = "success", "Success"
    SCORE = "score", "Score"


class Method(TextChoices):
    MIXTURE = "mixture", "Mixture SPRT with a confidence sequence"
    EXACT = "exact", "Exact e-process, for few units"


class DecisionRule(TextChoices):
    BETTER = "better", "The interval is above zero"
    NOT_WORSE = "not_worse", "The interval is above minus the margin"


class UnitRule(TextChoices):
    FIRST = "first", "The first run of each unit"
    MEAN = "mean", "The mean of the runs of each unit"


class Guarded(TextChoices):
    """What a guardrail watches. Its figure of a unit rises with the harm."""

    SUCCESS = "success", "Failed runs"
    ERRORS = "errors", "Runs with an error"
    COST = "cost", "Cost per run"
    LATENCY = "latency", "Duration of a run"
    HARM = "harm", "Runs in which a lesson was reported as harmful"


RATIOS = frozenset({Guarded.COST, Guarded.LATENCY})  # compared as logarithms: 0.1 is about 10 % more


@dataclass(frozen=True, kw_only=True, slots=True)
class Guardrail:
    """A one-sided test for harm that rolls back at once. A difference within the margin is no harm.

    Of cost and latency, `tau` and `margin` are differences of logarithms.
    """

    metric: str
    alpha: float = 0.01
    tau: float = 0.15
    margin: float = 0.0

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)

    def as_json(self) -> dict[str, Any]:
        return {"metric": self.metric, "alpha": self.alpha, "tau": self.tau, "margin": self.margin}


MOST_UNITS = 1_000_000
LONGEST_LOOK_BACK = 90 * 86_400  # seconds
GUARDRAILS = (
    Guardrail(metric=Guarded.SUCCESS),
    Guardrail(metric=Guarded.ERRORS, margin=0.02),
    Guardrail(metric=Guarded.COST, tau=0.3, margin=round(log(1.25), 4)),
    Guardrail(metric=Guarded.LATENCY, tau=0.3, margin=round(log(1.25), 4)),
    Guardrail(metric=Guarded.HARM, margin=0.01),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutStep:
    """A share of the units for the treated arm, in thousandths, and how many of them are needed before the next."""

    share: int
    units: int

    def as_json(self) -> dict[str, int]:
        return {"share": self.share, "units": self.units}


STEPS = (RolloutStep(share=10, units=20), RolloutStep(share=100, units=50), RolloutStep(share=500, units=100))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentPlan:
    """What is fixed before an experiment starts. Rates are between 0 and 1.

    Attributes:
        alpha: of the verdict, two-sided.
        tau: standard deviation of the expected effects; best, the effect hoped for.
        margin: how much worse still counts as "not worse", for that rule only.
        max_units: known outcomes of both arms together at which it ends without a benefit. Of a canary in steps only
            those of the last step count: a first step of 1 % alone takes 2,000 units.
        look_back_seconds: how long an outcome may take; later ones do not count.
        steps: shares of a canary, in order; none for an experiment whose shares others set.
        use_past: remove what the families' earlier success explains (CUPED).
        only_differing: let the verdict count only units whose first request the two releases answer differently, as
            shadow found. That holds for a unit whichever arm it is in. Guardrails and shares count all units.
    """

    metric: str = Metric.SUCCESS
    method: str = Method.MIXTURE
    rule: str = DecisionRule.BETTER
    unit_rule: str = UnitRule.FIRST
    alpha: float = 0.05
    tau: float = 0.1
    margin: float = 0.0
    max_units: int = 1600
    look_back_seconds: int = 86_400
    use_past: bool = False
    only_differing: bool = False
    guardrails: tuple[Guardrail, ...] = GUARDRAILS
    steps: tuple[RolloutStep, ...] = field(default=())

    def count_last_step(self, shares: Iterable[float]) -> int:
        """Return how many units had the last share of the canary or more, of their `shares` of the treated arm."""
        last = self.steps[-1].share if self.steps else 0
        # Half a thousandth of room, as shares are floats.
        return sum(share * THOUSANDTHS > last - 0.5 for share in shares)

    def check(self) -> Self:
        """Return the plan.

        Raises:
            PlanInvalid: it cannot be carried out; the message says what to change.
        """
        names = [guardrail.metric for guardrail in self.guardrails]
        shares = [step.share for step in self.steps]
        faults = [
            (not 0 < self.alpha < 1 or not 0 < self.tau < 1 or not 0 <= self.margin < 1, _RATES),
            (not 1 <= self.max_units <= MOST_UNITS, _UNITS),
            (not 1 <= self.look_back_seconds <= LONGEST_LOOK_BACK, _LOOK_BACK),
            (self.method == Method.EXACT and self.metric != Metric.SUCCESS, _EXACT),
            (self.method == Method.EXACT and self.rule == DecisionRule.NOT_WORSE, _EXACT_RULE),
            (self.method == Method.EXACT and self.unit_rule == UnitRule.MEAN, _EXACT_UNITS),
            (self.method == Method.EXACT and self.use_past, _EXACT_PAST),
            (self.method == Method.EXACT and self.only_differing, _EXACT_DIFFERING),
            ((self.rule == DecisionRule.NOT_WORSE) != (self.margin > 0), _MARGIN),
            (Guarded.SUCCESS not in names, _NO_SUCCESS),
            (len(set(names)) < len(names), "Name each guardrail once."),
            (shares != sorted(set(shares)), "Let the share of each step be larger than the one before."),
        ]
        for is_fault, message in faults:
            if is_fault:
                raise PlanInvalid(message)
        return self


def plan_units(base: float, lift: float, *, treated_share: float) -> int:
    """Return how many units find a lift with 80 % power at any look, 5 % false alarms."""
    if not 0 < base < 1 or not 0 < base + lift < 1 or not lift:
        raise PlanInvalid("Let `base` and `base` plus `lift` be between 0 and 1, and `lift` not 0.")
    # The formula is for one look at the end; looking all the time costs more units.
    return ceil(SEQUENTIAL_COST * units_in_total(base, lift, treated_share=treated_share))


_RATES = "Give rates as numbers between 0 and 1, such as `tau` 0.1 for 10 points; only the margin may be 0."
_UNITS = f"Let the experiment have from 1 to {MOST_UNITS:,} units."
_LOOK_BACK = f"Let outcomes wait for at least a second, and at most {LONGEST_LOOK_BACK // 86_400} days."
_EXACT = "The exact method counts successes only. Choose the metric `success`, or the method `mixture`."
_EXACT_RULE = "The exact method has no margin. Choose the rule `better`, or the method `mixture`."
_EXACT_UNITS = "The exact method counts one run of each unit. Choose the unit rule `first`, or the method `mixture`."
_EXACT_PAST = "The exact method cannot use the past of the families. Leave `use_past` out, or choose `mixture`."
_EXACT_DIFFERING = "The exact method counts every unit. Leave `only_differing` out, or choose `mixture`."
_MARGIN = "A margin above 0 belongs to the rule `not_worse`, and only to it."
_NO_SUCCESS = "Keep a guardrail for `success`: without it a harmful release would stay until the end."
