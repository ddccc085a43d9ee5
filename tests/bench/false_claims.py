"""How often experiments claim what is not so: `python -m tests.bench.false_claims`.

Each kind of traffic is simulated 1,000 times with a truth that is known. The rows go through the product's own
`collect` and `analyse`, with the default plan and a look every 20 units; there is no database and no server. The
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
    Findings,
    State,
    Unit,
    Verdict,
    analyse,
    find_missing_e_value,
)
from evaluation.experiments.exposures import Exposed, collect  # noqa: E402
from evaluation.experiments.models import Experiment  # noqa: E402
from evaluation.experiments.plan import Plan  # noqa: E402
from evaluation.sequential import FIRST_LOOK  # noqa: E402
from memory.retrieval.assignment import Arm  # noqa: E402

START = datetime(2026, 11, 1, tzinfo=UTC)
PACE = timedelta(seconds=15)  # from one unit to the next; 120 units are half an hour
EVERY = 20  # units from look to look
NEVER = 10**9
PLAN = Plan()
GUARD_ALPHA = max(guardrail.alpha for guardrail in PLAN.guardrails)
FEWEST_Z = float(2 * np.log(1 / max(PLAN.alpha, 2 * GUARD_ALPHA))) ** 0.5
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


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
    delay[(treated & ~success & (hit < kind.lost)) | (random.random(n) < kind.lost_anyway)] = NEVER
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
    """Yield the looks at which a claim is possible at all; the others are spared.

    A claim needs outcomes that differ in each of three ways, those unknown left out, counted as failures or as
    successes; or costs that differ. No mixture exceeds the likelihood ratio of the best effect, exp(z²/2), or twice
    that on one side.
    """
    for look in range(EVERY, kind.units + EVERY, EVERY):
        if kind.is_constant or kind.opposite:
            is_possible = look % 300 == 0
        else:
            is_possible = differs_in_outcomes(traffic, look)
            # Where costs differ they do so at nearly every look, so only every tenth is taken.
            is_possible |= bool(kind.cost) and look % (10 * EVERY) == 0 and differs_in_costs(traffic, look)
        if is_possible:
            yield look


def differs_in_outcomes(traffic: Traffic, look: int) -> bool:
    known, success = traffic.reported[:look] <= look, traffic.success[:look]
    everyone = np.ones(look, bool)
    first = find_z(success[known], traffic, known)
    if abs(first) < FEWEST_Z:
        return False
    others = (find_z(values, traffic, everyone) for values in (known & success, ~known | success))
    return bool(min(z if first > 0 else -z for z in others) >= FEWEST_Z)


def differs_in_costs(traffic: Traffic, look: int) -> bool:
    has_cost = (traffic.reported[:look] <= look) & ~np.isnan(traffic.cost[:look])
    return bool(abs(find_z(np.log(traffic.cost[:look][has_cost]), traffic, has_cost)) >= FEWEST_Z)


def is_alarmed(traffic: Traffic) -> bool:
    """Tell whether the arms ever differed in missing outcomes, looked at every 20 units."""
    if (traffic.reported == np.arange(1, len(traffic.reported) + 1)).all():
        return False
    units = [
        Unit(treated=bool(arm), block=int(share), share=0.5, state=State.PENDING)
        for arm, share in zip(traffic.treated, traffic.canary, strict=True)
    ]
    for look in range(EVERY, len(units) + EVERY, EVERY):
        unknown = traffic.reported[:look] > look
        is_possible = find_z(unknown, traffic, np.ones(look, bool)) ** 2 >= 2 * np.log(MISSING_ALARM)
        if is_possible and find_missing_e_value(units[:look], unknown.tolist()) >= MISSING_ALARM:
            return True
    return False


def find_z(values: Numbers | Flags, traffic: Traffic, chosen: Flags) -> float:
    """Return the difference of the arms within the blocks in standard errors; 0 where an arm is too small to decide."""
    look = len(chosen)
    treated, canary = traffic.treated[:look][chosen], traffic.canary[:look][chosen]
    if min(treated.sum(), (~treated).sum()) < FIRST_LOOK:
        return 0.0
    total = variance = 0.0
    for block in np.unique(traffic.canary[:: len(traffic.canary) // 3]):  # it changes at thirds, if at all
        arms = [values[(canary == block) & (treated == arm)].astype(float) for arm in (True, False)]
        n, m = map(len, arms)
        if min(n, m) > 1:
            weight = n * m / (n + m)
            total += weight * (arms[0].mean() - arms[1].mean())
            variance += weight**2 * (arms[0].var() / n + arms[1].var() / m)
    return float(total / variance**0.5) if variance else NEVER


def list_rows(kind: Kind, traffic: Traffic, look: int) -> Iterator[Exposed]:
    """Yield the rows as the database would have them after some units."""
    arms = (Arm.HOLDOUT, Arm.STABLE) if kind.holdout else (Arm.STABLE, Arm.CANDIDATE)
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
        is_harm = findings.verdict == Verdict.WORSE and kind.truth == Verdict.ROLL_BACK  # right, and it goes on
        if findings.verdict not in (Verdict.CONTINUE, Verdict.NO_BENEFIT) and not is_harm:
            estimate = findings.difference.estimate if findings.difference else float("nan")
            return findings.verdict, look, estimate, is_alarmed(traffic), opposed
        if findings.verdict == Verdict.NO_BENEFIT:
            break
    return "", kind.units, float("nan"), is_alarmed(traffic), opposed


NOTHING = [
    Kind(name="equal arms"),
    Kind(name="equal arms, a hold-out of 20%", holdout=200),
    *(Kind(name=f"{share:.0%} of the treated failures 120 units late", slow=share) for share in (0.1, 0.3, 1.0)),
    *(Kind(name=f"{share:.0%} of the treated failures never reported", lost=share) for share in (0.1, 0.3, 0.6)),
    Kind(name="30% of the control's successes 120 units late", slow_successes=0.3),
    Kind(name="both arms up to 200 units late", late=200),
    Kind(name="both up to 400 late, 30% of the treated failures 120 later", late=400, slow=0.3),
    Kind(name="half never reported, and 30% more of the treated failures", lost_anyway=0.5, lost=0.3),
    Kind(name="a fifth of the units come again and succeed", again=0.2),
    Kind(name="a fifth of the units switch the arm and succeed", again=0.2, switches=True),
    Kind(name="cost of both arms", cost="both"),
    Kind(name="cost from one arm only", cost="treated"),
    Kind(name="cost from one arm, of the other only that of failures", cost="failures of the treated"),
    Kind(name="day and night, shares of 10, 30, 60%", daily=True),
    Kind(name="everything reported as success", is_constant=True),
]
SOMETHING = [
    Kind(name="+12, hold-out of 20%", lift=0.12, holdout=200, truth=Verdict.BETTER),
    Kind(name="+15", lift=0.15, truth=Verdict.BETTER),
    Kind(name="+15, both arms up to 200 units late", lift=0.15, late=200, truth=Verdict.BETTER),
    Kind(name="+15, half never reported", lift=0.15, lost_anyway=0.5, truth=Verdict.BETTER),
    Kind(name="−15 from .6", base=0.6, lift=-0.15, truth=Verdict.ROLL_BACK),
    Kind(name="−15 from .6, canary of 20%", base=0.6, lift=-0.15, share=200, truth=Verdict.ROLL_BACK),
    Kind(name="+15 and −15 in halves", opposite=0.3, units=900),
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
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print("| kind | right claim | false claims | units, median | estimate, mean | missing | families |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with Pool(options.processes) as pool:
        for kind in [*NOTHING, *SOMETHING]:
            if any(word in kind.name for word in options.kind or [""]):
                found = pool.map(partial(run, kind), range(options.number), chunksize=4)
                print(write(kind, found), flush=True)


if __name__ == "__main__":
    main()
