"""How often the sequential tests err, and how many units they need: `python -m bench.sequential_figures`.

A direct simulation of `evaluation.sequential`, looked at after every unit of the smaller arm; no server. The figures of
docs/experiments.md that name it come from here.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from evaluation.experiments.plan import Guardrail
from evaluation.sequential import (
    FIRST_GUARD,
    FIRST_LOOK,
    RATIO_ALARM,
    Difference,
    Sample,
    exact_e_value,
    find_difference,
    guardrail_e_value,
    mixture_e_value,
    ratio_e_value,
    units_per_arm,
)

Counts = npt.NDArray[np.int64]
TAU, ALPHA = 0.1, 0.05
GUARDRAIL = Guardrail(metric="success")  # with the defaults of the product
CONTROLS = 4  # control units for each unit of a canary of 20 %


def find_first(looks: Iterable[int], is_reached: Callable[[int], bool]) -> float:
    """Return the first look at which something is reached, infinity where it never is."""
    return next((n for n in looks if is_reached(n)), float("inf"))


def find_possible(treated: Counts, control: Counts, *, start: int, least_e: float) -> list[int]:
    """Return the looks from the first allowed one on at which an e-value can reach a value at all.

    No mixture exceeds the likelihood ratio of the best effect, exp(z²/2), or twice that on one side. The variance here
    is at most that of the product, so z is at least that of the product.
    """
    n = np.arange(1, len(treated) + 1)
    m = n * (len(control) // len(treated))
    seen = control[m - 1]
    p, q = (treated + 0.5) / (n + 1), (seen + 0.5) / (m + 1)
    z = np.abs(treated / n - seen / m) / np.sqrt(p * (1 - p) / n + q * (1 - q) / m)
    looks: list[int] = n[(n >= start) & (z * z >= 2 * np.log(least_e / 2))].tolist()
    return looks


def compare(treated: int, n: int, control: int, m: int) -> Difference:
    """Return treated minus control from successes, as the product does from units."""
    difference = find_difference(_sample(treated, n), _sample(control, m))
    assert difference is not None
    return difference


def _sample(successes: int, n: int) -> Sample:
    smoothed = (successes + 0.5) / (n + 1)
    return Sample(n=n, mean=successes / n, variance=smoothed * (1 - smoothed))


def simulate_verdict(random: np.random.Generator, *, base: float, lift: float, looks: int) -> float:
    """Return at how many units per arm the mixture SPRT decides."""
    treated, control = _count(random, base + lift, looks), _count(random, base, looks)
    return find_first(
        find_possible(treated, control, start=FIRST_LOOK, least_e=1 / ALPHA),
        lambda n: mixture_e_value(compare(int(treated[n - 1]), n, int(control[n - 1]), n), tau=TAU) >= 1 / ALPHA,
    )


def simulate_small_arm(random: np.random.Generator, *, base: float, controls: int, looks: int) -> float:
    """Return at how many treated units the mixture SPRT decides without an effect, with many controls for each."""
    treated, control = _count(random, base, looks), _count(random, base, looks * controls)
    return find_first(
        find_possible(treated, control, start=FIRST_LOOK, least_e=1 / ALPHA),
        lambda n: (
            mixture_e_value(compare(int(treated[n - 1]), n, int(control[n * controls - 1]), n * controls), tau=TAU)
            >= 1 / ALPHA
        ),
    )


def simulate_exact(random: np.random.Generator, *, base: float, lift: float, looks: int) -> float:
    """Return at how many units in total the exact e-process decides, with a coin for the arm."""
    arms, draws = random.random(looks) < 0.5, random.random(looks)
    units = [(bool(arm), bool(draw < base + lift * arm), 0.5) for arm, draw in zip(arms, draws, strict=True)]
    if exact_e_value(units) < 1 / ALPHA and not any(
        exact_e_value(units[:n]) >= 1 / ALPHA for n in range(50, looks, 50)
    ):
        return float("inf")
    return find_first(range(1, looks + 1), lambda n: exact_e_value(units[:n]) >= 1 / ALPHA)


def simulate_rollback(random: np.random.Generator, *, base: float, harm: float, looks: int) -> float:
    """Return at how many canary units the guardrail for success fires, at a canary of one unit in five."""
    treated, control = _count(random, base - harm, looks), _count(random, base, looks * CONTROLS)

    def fires(n: int) -> bool:
        difference = compare(int(control[n * CONTROLS - 1]), n * CONTROLS, int(treated[n - 1]), n)
        return guardrail_e_value(difference, tau=GUARDRAIL.tau) >= 1 / GUARDRAIL.alpha

    possible = find_possible(treated, control, start=FIRST_GUARD, least_e=1 / GUARDRAIL.alpha)
    return find_first(possible, fires)


def simulate_ratio(random: np.random.Generator, *, planned: float, true: float, looks: int) -> float:
    """Return after how many units the sample-ratio test alarms."""
    first = _count(random, true, looks)
    shares = (planned, 1 - planned)
    return find_first(
        range(1, looks + 1),
        lambda n: ratio_e_value([((int(first[n - 1]), n - int(first[n - 1])), shares)]) >= RATIO_ALARM,
    )


def _count(random: np.random.Generator, rate: float, looks: int) -> Counts:
    # Successes after each unit, so that every look is one subtraction away.
    counts: Counts = np.cumsum(random.random(looks) < rate)
    return counts


def repeat(runs: int, simulate: Callable[[np.random.Generator], float]) -> npt.NDArray[np.float64]:
    """Return the results of simulations with the seeds 0, 1, 2 and so on."""
    return np.array([simulate(np.random.default_rng(seed)) for seed in range(runs)])


def write_equal_arms(runs: int) -> Iterator[str]:
    """Yield how often arms without an effect get a verdict."""
    yield f"A/A, looked at after every unit up to 4,000 per arm ({runs:,} runs, α = {ALPHA}, τ = {TAU})"
    for base in (0.3, 0.5, 0.7):
        results = repeat(runs, partial(simulate_verdict, base=base, lift=0, looks=4000))
        yield f"  base {base}: {np.isfinite(results).mean():.3f} false alarms"
    yield f"A/A with 19 controls for each treated unit, up to 500 treated ({runs:,} runs)"
    for base in (0.05, 0.5, 0.95):
        results = repeat(runs, partial(simulate_small_arm, base=base, controls=19, looks=500))
        yield f"  base {base}: {np.isfinite(results).mean():.3f} false alarms"


def write_power(runs: int) -> Iterator[str]:
    """Yield how many units it takes to find a lift."""
    yield "Verdict: units per arm to find a lift (planned size at one look; median; 80th percentile)"
    for base, lift in ((0.3, 0.1), (0.5, 0.1), (0.7, 0.1), (0.5, 0.05)):
        limit = round(units_per_arm(base, lift) * 1.6)
        results = repeat(runs, partial(simulate_verdict, base=base, lift=lift, looks=6000))
        yield (
            f"  base {base} lift {lift}: {units_per_arm(base, lift):,}; {np.median(results):,.0f}; "
            f"{np.percentile(results, 80):,.0f}; power at 1.6 × the planned size {np.mean(results <= limit):.3f}"
        )


def write_rollbacks(runs: int) -> Iterator[str]:
    """Yield how soon a harmful canary is rolled back, and how often a harmless one."""
    yield f"Rollback: units of a 20 % canary (median; 95th percentile), α = {GUARDRAIL.alpha}, τ = {GUARDRAIL.tau}"
    for base in (0.5, 0.7, 0.9):
        for harm in (0.1, 0.2, 0.3):
            units = repeat(runs, partial(simulate_rollback, base=base, harm=harm, looks=3000))
            yield f"  base {base}, −{100 * harm:.0f} points: {np.median(units):,.0f}; {np.percentile(units, 95):,.0f}"
    for base in (0.1, 0.5, 0.7, 0.9):
        false = repeat(4 * runs, partial(simulate_rollback, base=base, harm=0, looks=3000))
        yield f"  base {base}, no harm: {np.isfinite(false).mean():.4f} false rollbacks in 3,000 canary units"


def write_ratios(runs: int) -> Iterator[str]:
    """Yield how soon broken shares raise an alarm."""
    yield f"Sample ratio, planned 10 %: units until e ≥ {RATIO_ALARM:,.0f}"
    for true in (0.10, 0.12, 0.15):
        results = repeat(min(runs, 200), partial(simulate_ratio, planned=0.1, true=true, looks=10_000))
        alarms = np.isfinite(results)
        yield f"  true {true:.0%}: {alarms.mean():.1%} alarm within 10,000, median {np.median(results):,.0f}"


def write_exact(runs: int) -> Iterator[str]:
    """Yield how many units the exact e-process needs."""
    yield "Exact e-process, a coin for the arm: units in total (median)"
    for lift in (0.0, 0.3, 0.5):
        results = repeat(min(runs, 200), partial(simulate_exact, base=0.3, lift=lift, looks=400))
        decided = np.isfinite(results).mean()
        yield f"  base 0.3 lift {lift}: {decided:.1%} decided within 400, median {np.median(results):,.0f}"


PARTS: dict[str, Callable[[int], Iterator[str]]] = {
    "equal": write_equal_arms,
    "power": write_power,
    "rollback": write_rollbacks,
    "ratio": write_ratios,
    "exact": write_exact,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    options = parser.parse_args()
    for part in options.part or PARTS:
        for line in PARTS[part](options.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
