"""How often experiments claim what is not so: `python -m bench.false_claims`.

Each kind of traffic is simulated 1,000 times with a truth that is known. The rows go through the product's own
`collect` and `analyse`, with the default plan and a look every 20 units; there is no database and no server. Figures of
all looks at once, computed with numpy, say at which looks a claim is close; only these are given to the product. The
figures of docs/experiments.md that name this command come from here.
"""

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import Pool

import numpy as np
import numpy.typing as npt

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")

import django

django.setup()

from evaluation.experiments.analysis import (  # noqa: E402
    FAMILIES_ALARM,
    MISSING_ALARM,
    MISSING_TAU,
    ArmVerdict,
    Findings,
    analyse,
)
from evaluation.experiments.exposures import Exposed, collect  # noqa: E402
from evaluation.experiments.models import Experiment  # noqa: E402
from evaluation.experiments.plan import ExperimentPlan, Guarded, Guardrail  # noqa: E402
from evaluation.sequential import FIRST_LOOK  # noqa: E402
from memory.retrieval.assignment import ServedArm  # noqa: E402

START = datetime(2026, 11, 1, tzinfo=UTC)
PACE = timedelta(seconds=15)  # from one unit to the next; 120 units are half an hour
EVERY = 20  # units from look to look
NEVER = 10**9
PLAN = ExperimentPlan()
GUARDED = {guardrail.metric: guardrail for guardrail in PLAN.guardrails}
SLACK = 0.1  # of the logarithm of an e-value: what is that close to a claim is looked at by the product
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Count = Callable[[Flags, Numbers | Flags], Numbers]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Traffic of one kind. Rates are between 0 and 1, delays in units that come meanwhile.

    Attributes:
        slow: share of the treated arm's failures that are reported `delay` units late; `lost` of those never reported.
        slow_successes: the same for the control's successes.
        late: delay of every outcome of both arms, at most; each draws its own.
        lost_anyway: share of the outcomes of both arms that are never reported.
    """

    name: str
    truth: str = ""  # the claim that is right; without one, every claim is false
    base: float = 0.5
    lift: float = 0.0
    share: int = 500
    holdout: int = 0
    units: int = 1600
    slow: float = 0.0
    delay: int = 120
    lost: float = 0.0
    slow_successes: float = 0.0
    late: int = 0
    lost_anyway: float = 0.0
    again: float = 0.0  # share of the units that come again, and succeed at last
    switches: bool = False  # those that come again get the other arm
    cost: str = ""  # which runs report their cost, a key of `COSTS`
    daily: bool = False  # the base swings between .2 and .8, and the share of the canary grows
    opposite: float = 0.0  # the lift of one half of the traffic, minus that of the other
    is_constant: bool = False  # every outcome is reported as a success
    looks_anyway: int = 0  # the product looks after so many units, whatever can be expected


COSTS: dict[str, Callable[[Flags, Flags], Flags]] = {  # of treated, success
    "": lambda treated, success: treated & False,
    "both": lambda treated, success: treated | True,
    "treated": lambda treated, success: treated,
    "failures of the treated": lambda treated, success: ~treated | ~success,
}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The units of one experiment, in the order of their exposure."""

    treated: Flags
    success: Flags
    reported: Numbers  # how many units were exposed when the outcome came
    family: npt.NDArray[np.int64]
    canary: npt.NDArray[np.int64]
    again: Flags
    cost: Numbers


def draw(kind: Kind, seed: int) -> Traffic:
    """Draw one experiment."""
    random, n = np.random.default_rng(seed), kind.units
    canary = np.full(n, kind.share)
    base = np.full(n, kind.base)
    if kind.daily:
        # The shares grow while the base swings, where pooling over both would feign an effect.
        canary = np.repeat([100, 300, 600], -(-n // 3))[:n]
        base = 0.5 + 0.3 * np.sin(np.arange(n) / n * 6 * np.pi)
    treated_share = 1 - kind.holdout / 1000 if kind.holdout else canary / 1000
    treated = random.random(n) < treated_share
    family = random.integers(0, 2, n)
    lift = kind.lift + kind.opposite * (0.5 - family)
    success = (random.random(n) < base + lift * treated) | kind.is_constant
    delay = random.integers(0, kind.late + 1, n).astype(float)
    hit = random.random(n)
    delay[treated & ~success & (hit < kind.slow)] += kind.delay
    delay[~treated & success & (hit < kind.slow_successes)] += kind.delay
    # Last, so that no later line brings a lost outcome back.
    delay[(treated & ~success & (hit < kind.lost)) | (random.random(n) < kind.lost_anyway)] = NEVER
    # Failures cost twice as much, so that reporting only them would look like harm.
    cost = np.exp(random.normal(-2, 0.6, n)) * np.where(success, 1.0, 2.0)
    costs = COSTS[kind.cost](treated, success)
    return Traffic(
        treated=treated,
        success=success,
        reported=np.arange(n) + 1 + delay,
        family=family,
        canary=canary,
        again=random.random(n) < kind.again,
        cost=np.where(costs, cost, np.nan),
    )


def find_worth_looking(kind: Kind, traffic: Traffic) -> Iterator[int]:
    """Yield the looks at which the product could claim something, by `trace`, and those of the kind; no others."""
    for index, is_close in enumerate(trace(kind, traffic).is_close.tolist(), 1):
        look = index * EVERY
        if is_close or (kind.looks_anyway and look % kind.looks_anyway == 0):
            yield look


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Figures of all looks at once: whether a claim is close, and the e-value of missing outcomes."""

    is_close: Flags
    missing_e_value: Numbers


@dataclass(frozen=True, kw_only=True)
class Arms:
    """Units, sum and sum of squares of a figure, by look, block and arm (control, treated)."""

    n: Numbers
    total: Numbers
    squares: Numbers

    @property
    def is_enough(self) -> Flags:
        return np.asarray(self.n.sum(axis=1).min(axis=-1) >= FIRST_LOOK)

    def compare(self, *, is_share: bool = True) -> tuple[Numbers, Numbers]:
        """Return the difference and its variance at each look, by the formulas of `evaluation.sequential`."""
        n = np.maximum(self.n, 1e-9)
        mean = self.total / n
        if is_share:
            middle = (self.total + 0.5) / (self.n + 1)
            variance = (self.squares + 0.5) / (self.n + 1) - middle**2
        else:
            # The sum of squares about the mean, from the two sums that can be added up by look.
            variance = np.maximum((self.squares - self.total * mean) / np.maximum(self.n - 1, 1), 1e-9)
        whole = n.sum(axis=-1)
        alone = (variance / n).sum(axis=-1)
        together = (n * variance).sum(axis=-1) / whole * (1 / n).sum(axis=-1)
        weight = np.where(self.n.min(axis=-1) > 0, n.prod(axis=-1) / whole, 0.0)
        summed = np.maximum(weight.sum(axis=-1), 1e-9)
        estimate = (weight * (mean[..., 1] - mean[..., 0])).sum(axis=-1) / summed
        return estimate, (weight**2 * np.maximum(alone, together)).sum(axis=-1) / summed**2 + 1e-12


def trace(kind: Kind, traffic: Traffic) -> Trace:
    """Compute the figures of all looks at once, by the same formulas as the product does for one."""
    looks = np.arange(EVERY, kind.units + EVERY, EVERY)[:, None]
    is_exposed = np.arange(kind.units) < looks
    is_known = is_exposed & (traffic.reported <= looks)
    columns = [
        (traffic.canary == share) & (traffic.treated == arm)
        for share in np.unique(traffic.canary)
        for arm in (False, True)
    ]

    def count(chosen: Flags, values: Numbers | Flags) -> Numbers:
        # One product of matrices for all looks, which is what makes 1,000 simulations feasible.
        sums = chosen.astype(np.float32) @ (np.stack(columns, axis=1) * values[:, None]).astype(np.float32)
        return np.asarray(sums.reshape(len(looks), -1, 2), dtype=np.float64)

    ones = np.ones(kind.units)
    exposed, known_units, good = count(is_exposed, ones), count(is_known, ones), count(is_known, traffic.success)
    outcomes = Arms(n=known_units, total=good, squares=good)
    missing = Arms(n=exposed, total=exposed - known_units, squares=exposed - known_units)
    missing_e_value = np.where(missing.is_enough, np.exp(log_mixture(*missing.compare(), MISSING_TAU)), 1.0)
    share = np.maximum(known_units.sum(axis=(1, 2)) / exposed.sum(axis=(1, 2)), 1e-9)
    ways = [outcomes.compare()]
    for filled in (good, good + exposed - known_units):
        estimate, variance = Arms(n=exposed, total=filled, squares=filled).compare()
        ways.append((estimate / share, variance / share**2))
    is_better, is_worse, is_harm = (np.ones(len(looks), bool) for _ in range(3))
    for estimate, variance in ways:
        # A little below the threshold: the product itself decides about what is that close.
        is_sure = log_mixture(estimate, variance, PLAN.tau) >= np.log(1 / PLAN.alpha) - SLACK
        is_better &= is_sure & (estimate > 0)
        is_worse &= is_sure & (estimate < 0)
        is_harm &= log_harm(-estimate, variance, GUARDED[Guarded.SUCCESS]) >= -SLACK
    # A canary that does harm is found worse long before it is rolled back; that claim is right, and not counted.
    is_close = is_better | is_harm | (is_worse & (kind.truth != ArmVerdict.ROLL_BACK))
    is_close &= outcomes.is_enough & (missing_e_value < MISSING_ALARM * np.exp(SLACK))
    is_close |= trace_costs(kind, traffic, count, is_known, exposed)
    return Trace(is_close=is_close, missing_e_value=missing_e_value)


def trace_costs(kind: Kind, traffic: Traffic, count: Count, is_known: Flags, exposed: Numbers) -> Flags:
    """Tell at which looks the guardrail of cost is close to a roll-back."""
    if not kind.cost:
        return np.zeros(len(is_known), bool)
    has_cost = is_known & ~np.isnan(traffic.cost)
    cost = np.log(np.where(np.isnan(traffic.cost), 1.0, traffic.cost))
    told = count(has_cost, np.ones(kind.units))
    silent = Arms(n=exposed, total=exposed - told, squares=exposed - told)
    is_comparable = log_mixture(*silent.compare(), MISSING_TAU) < np.log(MISSING_ALARM) + SLACK
    costs = Arms(n=told, total=count(has_cost, cost), squares=count(has_cost, cost**2))
    estimate, variance = costs.compare(is_share=False)
    is_close = log_harm(estimate, variance, GUARDED[Guarded.COST]) >= -SLACK
    return np.asarray(costs.is_enough & is_comparable & is_close)


def log_mixture(estimate: Numbers, variance: Numbers, tau: float) -> Numbers:
    prior = tau * tau
    exponent = prior * estimate**2 / (2 * variance * (variance + prior))
    # Cut, as `exp` overflows a little above 700.
    return np.asarray(np.minimum(0.5 * np.log(variance / (variance + prior)) + exponent, 600.0))


def log_harm(estimate: Numbers, variance: Numbers, guardrail: Guardrail) -> Numbers:
    """Return by how much the e-value is above the guardrail's threshold, if all of the mixture lay on its side."""
    harm = estimate - guardrail.margin
    log_evidence = np.log(2) + log_mixture(harm, variance, guardrail.tau) - np.log(1 / guardrail.alpha)
    return np.where(harm > 0, log_evidence, -np.inf)


def is_alarmed(kind: Kind, traffic: Traffic) -> bool:
    """Tell whether the product finds at any look, of one every 20 units, that the arms differ in missing outcomes."""
    close = np.flatnonzero(trace(kind, traffic).missing_e_value >= MISSING_ALARM * np.exp(-SLACK))
    return any(look_at(kind, traffic, look).missing_e_value >= MISSING_ALARM for look in ((close + 1) * EVERY).tolist())


def list_rows(kind: Kind, traffic: Traffic, look: int) -> Iterator[Exposed]:
    """Yield the rows as the database would have them after some units."""
    arms = (ServedArm.HOLDOUT, ServedArm.STABLE) if kind.holdout else (ServedArm.STABLE, ServedArm.CANDIDATE)
    for i in range(look):
        at = START + i * PACE
        is_known = bool(traffic.reported[i] <= look)
        row = Exposed(
            unit=str(i),
            arm=arms[int(traffic.treated[i])],
            at=at,
            family=f"family-{traffic.family[i]}",
            canary_share=0 if kind.holdout else int(traffic.canary[i]),
            holdout_share=kind.holdout,
            is_recorded=is_known,
            outcome=("success" if traffic.success[i] else "failure") if is_known else None,
            score=None,
            source="test" if is_known else None,
            known_at=START + float(traffic.reported[i]) * PACE if is_known else None,
            cost=None if np.isnan(traffic.cost[i]) or not is_known else float(traffic.cost[i]),
            seconds=None,
            has_error=False if is_known else None,
            is_harm=None,
        )
        yield row
        if traffic.again[i] and is_known:
            other = arms[int(not traffic.treated[i])] if kind.switches else row.arm
            yield row._replace(arm=other, outcome="success")


def look_at(kind: Kind, traffic: Traffic, look: int) -> Findings:
    """Look as the product does."""
    compared = Experiment.Compared.MEMORY if kind.holdout else Experiment.Compared.CANARY
    exposures = collect(list_rows(kind, traffic, look), PLAN, compared=compared, now=START + look * PACE)
    return analyse(PLAN, exposures.units, ratios=exposures.ratios)


def run(kind: Kind, seed: int) -> tuple[str, int, float, bool, bool]:
    """Return the claim of one experiment with its units and estimate, and whether it raised the two alarms."""
    traffic = draw(kind, seed)
    opposed = False
    for look in find_worth_looking(kind, traffic):
        findings = look_at(kind, traffic, look)
        opposed |= findings.families["e_value"] >= FAMILIES_ALARM
        # This claim is right, and the run goes on after it.
        is_harm = findings.verdict == ArmVerdict.WORSE and kind.truth == ArmVerdict.ROLL_BACK
        if findings.verdict not in (ArmVerdict.CONTINUE, ArmVerdict.NO_BENEFIT) and not is_harm:
            estimate = findings.difference.estimate if findings.difference else float("nan")
            return findings.verdict, look, estimate, is_alarmed(kind, traffic), opposed
        if findings.verdict == ArmVerdict.NO_BENEFIT:
            break
    return "", kind.units, float("nan"), is_alarmed(kind, traffic), opposed


NOTHING = [
    Kind(name="equal arms", looks_anyway=800),
    Kind(name="equal arms, a hold-out of 20%", holdout=200),
    *(Kind(name=f"{share:.0%} of the treated failures 120 units late", slow=share) for share in (0.1, 0.3, 1.0)),
    *(Kind(name=f"{share:.0%} of the treated failures never reported", lost=share) for share in (0.1, 0.3, 0.6)),
    Kind(name="30% of the control's successes 120 units late", slow_successes=0.3),
    Kind(name="both arms up to 200 units late", late=200),
    Kind(name="both up to 400 late, 30% of the treated failures 120 later", late=400, slow=0.3),
    Kind(name="half never reported, and 30% more of the treated failures", lost_anyway=0.5, lost=0.3),
    Kind(name="a fifth of the units come again and succeed", again=0.2, looks_anyway=1600),
    Kind(name="a fifth of the units switch the arm and succeed", again=0.2, switches=True, looks_anyway=1600),
    Kind(name="cost of both arms", cost="both"),
    Kind(name="cost from one arm only", cost="treated"),
    Kind(name="cost from one arm, of the other only that of failures", cost="failures of the treated"),
    Kind(name="day and night, shares of 10, 30, 60%", daily=True),
    Kind(name="everything reported as success", is_constant=True, looks_anyway=1600),
]
SOMETHING = [
    Kind(name="+12, hold-out of 20%", lift=0.12, holdout=200, truth=ArmVerdict.BETTER),
    Kind(name="+15", lift=0.15, truth=ArmVerdict.BETTER),
    Kind(name="+15, both arms up to 200 units late", lift=0.15, late=200, truth=ArmVerdict.BETTER),
    Kind(name="+15, half never reported", lift=0.15, lost_anyway=0.5, truth=ArmVerdict.BETTER),
    Kind(name="−15 from .6", base=0.6, lift=-0.15, truth=ArmVerdict.ROLL_BACK),
    Kind(name="−15 from .6, canary of 20%", base=0.6, lift=-0.15, share=200, truth=ArmVerdict.ROLL_BACK),
    Kind(name="+15 and −15 in halves", opposite=0.3, units=900, looks_anyway=300),
]


def write(kind: Kind, found: list[tuple[str, int, float, bool, bool]]) -> str:
    """Return a line of a table."""
    claims = Counter(claim for claim, *_ in found if claim)
    right = claims.pop(kind.truth, 0)
    units = [units for claim, units, *_ in found if claim]
    estimates = [100 * estimate for claim, _, estimate, *_ in found if claim]
    kinds = ", ".join(f"{number} {claim}" for claim, number in sorted(claims.items()))
    cells = [
        kind.name,
        f"{right / len(found):.1%} {kind.truth}" if kind.truth else "–",
        f"{claims.total() / len(found):.1%}" + (f" ({kinds})" if kinds else ""),
        f"{np.median(units):,.0f}" if units else "–",
        f"{np.mean(estimates):+.1f}" if estimates else "–",
        f"{np.mean([alarmed for *_, alarmed, _ in found]):.1%}",
        f"{np.mean([opposed for *_, opposed in found]):.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--kind", action="append", help="part of a name; default: all")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    print("| kind | right claim | false claims | units, median | estimate, mean | missing | families |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with Pool(options.processes) as pool:
        for kind in [*NOTHING, *SOMETHING]:
            if any(word in kind.name for word in options.kind or [""]):
                results = pool.map(partial(run, kind), range(options.number), chunksize=4)
                print(write(kind, results), flush=True)


if __name__ == "__main__":
    main()
