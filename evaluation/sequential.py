"""Test two arms while their runs come in: figures that stay valid however often they are looked at.

An e-value has a mean of at most 1 without an effect; one of 1/α or more at any time has probability α at most (Ville
1939). The functions name their sources: Johari, Koomen, Pekelis, Walsh (KDD 2017); Howard, Ramdas, McAuliffe, Sekhon
(2021); Turner, Ly, Grünwald (2024); Lindon, Malek (2022); Greenland, Robins (1985); Deng, Xu, Kohavi, Walker (2013);
Fleiss (1981); Connor (1987). What compares within strata of runs is in `memory.effects.stratified`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, fsum, inf, lgamma, log, sqrt
from statistics import NormalDist

from memory.effects.stratified import Difference, Interval, confidence_sequence

__all__ = ["Difference", "Interval", "confidence_sequence"]  # modules of this app import them from here

NORMAL = NormalDist()
FIRST_LOOK = 30  # units per arm from which a mean counts as normal; below, only the exact e-value is used
FIRST_GUARD = 40  # units per arm from which a guardrail may fire
RATIO_ALARM = 1000.0  # e-value from which the shares of the arms count as broken
RATIO_WEIGHT = 100.0  # prior weight of the planned shares, in units
EXACT_PRIOR = 0.18  # of the Beta prior; the best found by Turner, Ly and Grünwald
_LARGEST = 690.0  # exponents beyond it do not fit a float
_LEAST_VARIANCE = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The observations of one arm: their number, mean and variance."""

    n: int
    mean: float
    variance: float


def sample_shares(values: Sequence[float]) -> Sample:
    """Summarise figures between 0 and 1: successes, scores, or means of a unit's runs.

    The variance counts one observation more, half of it 0 and half 1, so that it is never 0. For successes that is
    p(1 − p) at p = (s + ½)/(n + 1).
    """
    n = len(values)
    mean, square = (fsum(values) + 0.5) / (n + 1), (fsum(value * value for value in values) + 0.5) / (n + 1)
    return Sample(n=n, mean=fsum(values) / n if n else 0.0, variance=square - mean * mean)


def sample_figures(values: Sequence[float]) -> Sample:
    """Summarise figures of any range, for example logarithms of costs."""
    n = len(values)
    mean = fsum(values) / n if n else 0.0
    spread = fsum((value - mean) ** 2 for value in values) / (n - 1) if n > 1 else 0.0
    return Sample(n=n, mean=mean, variance=max(spread, _LEAST_VARIANCE))


def find_difference(treated: Sample, control: Sample) -> Difference | None:
    """Return the difference of two means, or None where an arm is empty.

    The variance is the larger of two: each arm with its own, or both with the one that they have together. By its own
    alone, a small arm in which all units happen to end the same way would look far more certain than it is. For arms of
    one size the two are equal.
    """
    if not treated.n or not control.n:
        return None
    # Welch's variance, each arm with its own.
    alone = treated.variance / treated.n + control.variance / control.n
    shared = (treated.n * treated.variance + control.n * control.variance) / (treated.n + control.n)
    # The pooled variance, as under "no difference" both arms have one.
    together = shared * (1 / treated.n + 1 / control.n)
    return Difference(estimate=treated.mean - control.mean, variance=max(alone, together))


def pool_parts(parts: Iterable[tuple[Sample, Sample]]) -> Difference | None:
    """Pool the differences of parts with shares of their own; None where no part has units in both arms.

    The weight of a part with n treated and m control units is nm/(n + m) (Mantel and Haenszel's, for differences
    Greenland and Robins 1985). It does not depend on the outcomes; weights by precision do, and favour the parts in
    which a small arm happens to vary little, which feigns an effect. Arms are never pooled over parts: where shares and
    success both changed, that feigns one too (Simpson).

    Args:
        parts: the treated and the control arm of each.
    """
    weights, estimates = [], []
    for treated, control in parts:
        if (difference := find_difference(treated, control)) is not None:
            weights.append(treated.n * control.n / (treated.n + control.n))
            estimates.append(difference)
    if not estimates:
        return None
    whole = fsum(weights)
    return Difference(
        estimate=fsum(weight * part.estimate for weight, part in zip(weights, estimates, strict=True)) / whole,
        variance=fsum(weight * weight * part.variance for weight, part in zip(weights, estimates, strict=True))
        / whole**2,
    )


def mixture_e_value(difference: Difference, *, tau: float) -> float:
    """Return the e-value of the mixture SPRT against "no difference" (Johari et al. 2017, eq. 7).

    The likelihood ratio is averaged over effects of N(0, τ²): Λ = √(s²/(s²+τ²)) · exp(τ²D² / (2s²(s²+τ²))), where s² is
    the variance of D. Johari's V/n is s².
    """
    return _exp(_log_mixture(difference, tau))


def guardrail_e_value(difference: Difference, *, tau: float, margin: float = 0.0) -> float:
    """Return the e-value against "the treated arm is worse by at most the margin"; a rising figure is the harm.

    The mixture has harmful effects only, a half-normal: 2Λ·Φ(Dτ / (s√(s²+τ²))) (Howard et al. 2021, section 3.2).
    """
    harm = Difference(estimate=difference.estimate - margin, variance=difference.variance)
    scale = sqrt(harm.variance * (harm.variance + tau * tau))
    side = NORMAL.cdf(harm.estimate * tau / scale)
    return 2 * _exp(_log_mixture(harm, tau)) * side if side > 0 else 0.0


def exact_e_value(observations: Iterable[tuple[bool, bool, float]]) -> float:
    """Return an e-value against "success does not depend on the arm" that needs no approximation.

    Turner, Ly and Grünwald (2024), with their Beta(0.18, 0.18) estimates from past blocks. A block holds units of both
    arms in the ratio of their shares; it multiplies by the product of p_arm(y) / p̄(y), whose mean is at most 1 without
    an effect. Units wait until their block is full, so it does not matter in which order the arms report.

    Args:
        observations: (treated, success, share of the treated arm), in the order in which the outcomes came.
    """
    wins, totals, total = [0, 0], [0, 0], 0.0
    waiting: tuple[list[bool], list[bool]] = ([], [])
    for treated, success, share in observations:
        waiting[treated].append(success)
        if not 0 < share < 1:
            continue
        # Units of each arm in one block, in the ratio of their shares: 9 and 1 for a canary of a tenth.
        sizes = max(round((1 - share) / share), 1), max(round(share / (1 - share)), 1)
        if any(len(units) < size for units, size in zip(waiting, sizes, strict=True)):
            continue
        # From past blocks only: a bet that knew its own outcome would be no fair bet.
        rates = [(wins[arm] + EXACT_PRIOR) / (totals[arm] + 2 * EXACT_PRIOR) for arm in (0, 1)]
        # p̄, the rate that both arms would share without an effect.
        middle = (sizes[0] * rates[0] + sizes[1] * rates[1]) / sum(sizes)
        for arm, size in enumerate(sizes):
            block = waiting[arm][:size]
            del waiting[arm][:size]
            wins[arm] += sum(block)
            totals[arm] += size
            total += sum(block) * log(rates[arm] / middle)
            total += (size - sum(block)) * log((1 - rates[arm]) / (1 - middle))
    return _exp(total)


def ratio_e_value(parts: Iterable[tuple[Sequence[int], Sequence[float]]]) -> float:
    """Return the e-value against "the arms have the planned shares" (Lindon, Malek 2022, eq. 6).

    The Dirichlet-multinomial with weights 100·ρ over the multinomial with shares ρ, multiplied over the parts.

    Args:
        parts: the counts of the arms and their planned shares, one part for each period without a change of shares.
    """
    total = 0.0
    for counts, shares in parts:
        whole = fsum(shares)
        # In logarithms: the gamma functions themselves overflow from 170 units on.
        total += lgamma(RATIO_WEIGHT) - lgamma(RATIO_WEIGHT + sum(counts))
        for count, share in zip(counts, shares, strict=True):
            if share <= 0:
                # A unit in an arm without a share cannot happen under the plan.
                total += inf if count else 0.0
                continue
            weight = RATIO_WEIGHT * share / whole
            total += lgamma(weight + count) - lgamma(weight) - count * log(share / whole)
    return _exp(total)


def units_per_arm(base: float, lift: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return the size of each of two equal arms, looked at once (Fleiss 1981, without correction)."""
    treated = base + lift
    middle = (base + treated) / 2
    null, alternative = sqrt(2 * middle * (1 - middle)), sqrt(base * (1 - base) + treated * (1 - treated))
    return ceil(((_z(1 - alpha / 2) * null + _z(power) * alternative) / lift) ** 2)


def units_in_total(base: float, lift: float, *, treated_share: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return the size of both arms together where one gets only a share, looked at once."""
    treated = base + lift
    variance = base * (1 - base) / (1 - treated_share) + treated * (1 - treated) / treated_share
    return ceil((_z(1 - alpha / 2) + _z(power)) ** 2 * variance / lift**2)


def paired_tasks(lift: float, *, discordant: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return how many tasks to run in both arms, of which a share ends differently (Connor 1987, for McNemar)."""
    reach = _z(1 - alpha / 2) * sqrt(discordant) + _z(power) * sqrt(max(discordant - lift * lift, 0.0))
    return ceil((reach / lift) ** 2)


def remove_past(values: Sequence[float], past: Sequence[float]) -> list[float]:
    """Return the values without what the past of their units explains: CUPED (Deng et al. 2013, eq. 4).

    Y − θ(X − mean X) with θ = cov(X, Y)/var(X) over both arms; the variance falls by the squared correlation. X must be
    known before the unit is assigned. The mean of the values stays.
    """
    n = len(values)
    mean, middle = fsum(values) / n, fsum(past) / n
    spread = fsum((x - middle) ** 2 for x in past)
    # Where all families have the same past, it explains nothing, and θ would be 0/0.
    if spread <= _LEAST_VARIANCE:
        return list(values)
    theta = fsum((x - middle) * (y - mean) for x, y in zip(past, values, strict=True)) / spread
    return [y - theta * (x - middle) for x, y in zip(past, values, strict=True)]


def _log_mixture(difference: Difference, tau: float) -> float:
    variance, prior = difference.variance, tau * tau
    exponent = prior * difference.estimate**2 / (2 * variance * (variance + prior))
    return 0.5 * log(variance / (variance + prior)) + exponent


def _exp(value: float) -> float:
    return exp(min(value, _LARGEST))


def _z(probability: float) -> float:
    return NORMAL.inv_cdf(probability)
