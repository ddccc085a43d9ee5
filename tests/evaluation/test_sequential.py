"""The sequential tests against independent computations (scipy), enumeration and small simulations.

The large simulations, with the figures of the documentation, are in bench/sequential_figures.py.
"""

from itertools import product
from math import sqrt
from random import Random

import numpy as np
import pytest
from scipy import integrate, stats

from evaluation.sequential import (
    FIRST_GUARD,
    FIRST_LOOK,
    Difference,
    Sample,
    confidence_sequence,
    exact_e_value,
    find_difference,
    guardrail_e_value,
    mixture_e_value,
    paired_tasks,
    pool_parts,
    ratio_e_value,
    remove_past,
    sample_figures,
    sample_shares,
    units_in_total,
    units_per_arm,
)

OBSERVED = Difference(estimate=0.06, variance=0.0009)


def _count(successes: int, n: int) -> Sample:
    smoothed = (successes + 0.5) / (n + 1)
    return Sample(n=n, mean=successes / n, variance=smoothed * (1 - smoothed))


def _ratio(effect: float, observed: Difference) -> float:
    alone, none = (stats.norm(mean, sqrt(observed.variance)).pdf(observed.estimate) for mean in (effect, 0))
    return float(alone / none)


def test_mixture_is_average_likelihood_ratio_over_normal_effects() -> None:
    average, _ = integrate.quad(lambda d: _ratio(d, OBSERVED) * stats.norm(0, 0.1).pdf(d), -1, 1, points=[0, 0.06])

    assert mixture_e_value(OBSERVED, tau=0.1) == pytest.approx(average, rel=1e-6)


def test_guardrail_is_average_likelihood_ratio_over_harmful_effects() -> None:
    average, _ = integrate.quad(lambda d: _ratio(d, OBSERVED) * 2 * stats.norm(0, 0.1).pdf(d), 0, 1, points=[0.06])

    assert guardrail_e_value(OBSERVED, tau=0.1) == pytest.approx(average, rel=1e-6)


def test_guardrail_ignores_benefit_and_harm_within_margin() -> None:
    assert guardrail_e_value(Difference(estimate=-0.3, variance=0.0009), tau=0.1) < 1
    assert guardrail_e_value(Difference(estimate=0.3, variance=0.0009), tau=0.1, margin=0.4) < 1
    assert guardrail_e_value(Difference(estimate=0.3, variance=0.0009), tau=0.1) > 1000


def test_confidence_sequence_ends_where_mixture_rejects() -> None:
    interval = confidence_sequence(OBSERVED, tau=0.1, alpha=0.05)
    at_low = Difference(estimate=OBSERVED.estimate - interval.low, variance=OBSERVED.variance)

    assert mixture_e_value(at_low, tau=0.1) == pytest.approx(20)
    assert interval.high - OBSERVED.estimate == pytest.approx(OBSERVED.estimate - interval.low)


def test_confidence_sequence_equals_formula_in_blocks() -> None:
    """The published form counts blocks of k₁ treated and k₀ control runs."""
    n, variance, tau, mean = 400, 0.25 / 1 + 0.24 / 9, 0.1, 0.05
    spread = variance * (variance + n * tau**2) / (n**2 * tau**2)
    reach = sqrt(spread * (2 * np.log(20) + np.log(1 + n * tau**2 / variance)))

    found = find_difference(Sample(n=n, mean=0.55, variance=0.25), Sample(n=9 * n, mean=0.5, variance=0.24))

    assert found is not None
    interval = confidence_sequence(found, tau=tau, alpha=0.05)
    assert (interval.low, interval.high) == pytest.approx((mean - reach, mean + reach))


@pytest.mark.parametrize("arms", [(0, 1, 0, 1, 0, 1, 0, 1), (0, 0, 0, 0, 1, 1, 1, 1), (1, 0, 0, 1, 1, 1, 0, 0)])
def test_exact_e_value_has_mean_of_at_most_one_in_any_order(arms: tuple[int, ...]) -> None:
    """All 256 courses of eight units with a success rate of 60 %, each with its probability."""
    rate = 0.6
    mean = sum(
        np.prod([rate if success else 1 - rate for success in course])
        * exact_e_value((bool(arm), success, 0.5) for arm, success in zip(arms, course, strict=True))
        for course in product((True, False), repeat=8)
    )

    assert 0.9 < mean <= 1


def test_exact_e_value_of_unequal_shares_has_mean_of_at_most_one() -> None:
    course_of_arms = (0, 0, 1, 0, 0, 0, 0, 1)  # blocks of one treated and three control units
    mean = sum(
        np.prod([0.3 if success else 0.7 for success in course])
        * exact_e_value((bool(arm), success, 0.25) for arm, success in zip(course_of_arms, course, strict=True))
        for course in product((True, False), repeat=8)
    )

    assert 0.9 < mean <= 1


def test_exact_e_value_is_not_moved_by_an_arm_that_reports_first() -> None:
    """Without any difference, however long one arm waits for the other."""
    assert exact_e_value([(False, True, 0.8)] * 120 + [(True, True, 0.8)] * 480) == pytest.approx(1, abs=0.1)


def test_exact_e_value_sees_large_effect_in_few_units() -> None:
    assert exact_e_value((bool(number % 2), bool(number % 2), 0.5) for number in range(24)) > 100


def test_ratio_e_value_agrees_with_scipy() -> None:
    counts, shares = [130, 870], [0.1, 0.9]
    dirichlet = stats.dirichlet_multinomial([10, 90], 1000).pmf(counts)
    multinomial = stats.multinomial(1000, shares).pmf(counts)

    assert ratio_e_value([(counts, shares)]) == pytest.approx(dirichlet / multinomial)


def test_ratio_e_value_of_unplanned_arm_is_alarm() -> None:
    assert ratio_e_value([([1, 10], [0.0, 1.0])]) > 1e6
    assert ratio_e_value([([0, 10], [0.0, 1.0])]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("base", "lift", "per_arm", "with_holdout"),
    [(0.5, 0.10, 388, 2172), (0.3, 0.05, 1377, 7387), (0.7, 0.03, 3554, 20224)],
)
def test_planned_size_equals_published_table(base: float, lift: float, per_arm: int, with_holdout: int) -> None:
    assert units_per_arm(base, lift) == per_arm
    assert units_in_total(base, lift, treated_share=0.9) == with_holdout


def test_planned_size_has_planned_power_in_exact_computation() -> None:
    """The power of the pooled z-test at the planned size, summed over all outcomes of both arms."""
    n = units_per_arm(0.5, 0.1)
    treated, control = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    middle = (treated + control) / (2 * n)
    spread = np.sqrt(np.maximum(2 * middle * (1 - middle) / n, 1e-12))
    found = np.abs(treated - control) / n / spread >= 1.959964
    chance = np.outer(stats.binom(n, 0.6).pmf(np.arange(n + 1)), stats.binom(n, 0.5).pmf(np.arange(n + 1)))

    assert float(chance[found].sum()) == pytest.approx(0.8, abs=0.01)


def test_paired_size_equals_published_table() -> None:
    assert [paired_tasks(lift, discordant=0.2) for lift in (0.03, 0.05, 0.10)] == [1742, 626, 155]


def test_variance_of_successes_is_smoothed() -> None:
    sample = sample_shares([1.0] * 9)

    assert (sample.n, sample.mean) == (9, 1.0)
    assert sample.variance == pytest.approx(0.95 * 0.05)


def test_variance_of_other_figures_is_unbiased() -> None:
    assert sample_figures([1.0, 2.0, 4.0]).variance == pytest.approx(np.var([1, 2, 4], ddof=1))


def test_pooling_by_part_is_not_misled_by_changed_shares() -> None:
    """Success rises and the share of the treated grows: pooled arms would show +24 points where there is no effect."""
    early = (sample_shares([1, 0, 0, 0] * 10), sample_shares([1, 0, 0, 0] * 90))
    late = (sample_shares([1, 1, 1, 0] * 50), sample_shares([1, 1, 1, 0] * 50))

    pooled = pool_parts([early, (sample_shares([]), sample_shares([1])), late])

    assert pooled is not None
    assert pooled.estimate == pytest.approx(0)


def test_pooled_parts_agree_with_mantel_haenszel_of_counts() -> None:
    """Greenland and Robins 1985, equation 1: Σ(a·m − b·n)/N over Σ nm/N."""
    tables = [(8, 20, 900, 1000), (40, 50, 380, 450), (90, 120, 88, 118)]  # treated successes and units, control's
    by_counts = sum((a * m - b * n) / (n + m) for a, n, b, m in tables) / sum(n * m / (n + m) for _, n, _, m in tables)

    pooled = pool_parts(
        (sample_shares([1] * a + [0] * (n - a)), sample_shares([1] * b + [0] * (m - b))) for a, n, b, m in tables
    )

    assert pooled is not None
    assert pooled.estimate == pytest.approx(by_counts)


def test_small_arm_in_which_all_succeed_is_no_verdict() -> None:
    """At a success rate of 90 %, that happens to 30 units in one experiment of 24."""
    found = find_difference(sample_shares([1] * 30), sample_shares([1] * 540 + [0] * 60))

    assert found is not None
    assert mixture_e_value(found, tau=0.1) < 20


def test_small_arm_in_which_all_fail_fires_no_guardrail() -> None:
    found = find_difference(sample_shares([1] * FIRST_GUARD), sample_shares([1] * 720 + [0] * 80))

    assert found is not None
    assert guardrail_e_value(found, tau=0.15) < 100


def test_pooled_parts_have_no_bias_though_a_small_arm_varies_with_its_outcomes() -> None:
    """Three parts with equal arms at 90 %; weights by precision would show almost +1 point on average."""
    generator = np.random.default_rng(3)
    sizes = [(20, 1980), (50, 450), (100, 100)]
    draws = generator.binomial([n for pair in sizes for n in pair], 0.9, (2000, 6))

    pooled = [
        pool_parts((_count(row[2 * part], n), _count(row[2 * part + 1], m)) for part, (n, m) in enumerate(sizes))
        for row in draws.tolist()
    ]

    assert abs(np.mean([each.estimate for each in pooled if each])) < 0.003


def test_removing_past_leaves_unexplained_variance() -> None:
    generator = np.random.default_rng(1)
    past = generator.normal(0.5, 0.2, 2000)
    values = past * 0.7 + generator.normal(0, 0.2, 2000)

    left = remove_past(values.tolist(), past.tolist())

    correlation = stats.pearsonr(values, past).statistic
    assert np.mean(left) == pytest.approx(values.mean())
    assert np.var(left) / np.var(values) == pytest.approx(1 - correlation**2)


def test_past_that_never_varied_removes_nothing() -> None:
    assert remove_past([0.0, 1.0], [0.5, 0.5]) == [0.0, 1.0]


def _first_alarm(random: Random, *, base: float, lift: float, units: int) -> int:
    """Return after how many units of each arm the mixture SPRT rejects, looked at after every pair; 0 for never."""
    wins = [0, 0]
    for n in range(1, units + 1):
        wins[0] += random.random() < base
        wins[1] += random.random() < base + lift
        if n < FIRST_LOOK:
            continue
        p = [(w + 0.5) / (n + 1) for w in wins]
        found = Difference(estimate=(wins[1] - wins[0]) / n, variance=sum(q * (1 - q) for q in p) / n)
        if mixture_e_value(found, tau=0.1) >= 20:
            return n
    return 0


def test_arms_without_difference_rarely_alarm_at_any_look() -> None:
    alarms = sum(_first_alarm(Random(seed), base=0.5, lift=0, units=800) > 0 for seed in range(120))

    assert alarms <= stats.binom(120, 0.05).ppf(0.999)


def test_planned_effect_is_found_within_planned_maximum() -> None:
    found = sum(_first_alarm(Random(seed), base=0.5, lift=0.1, units=616) > 0 for seed in range(120))

    assert found >= stats.binom(120, 0.8).ppf(0.001)


def test_harmful_arm_trips_guardrail_early() -> None:
    """20 points worse at a canary of one in five, looked at after each canary run: 95 of 100 within 179 runs."""
    needed = []
    for seed in range(100):
        random, wins = Random(seed), [0, 0]
        for n in range(1, 400):
            wins[1] += random.random() < 0.3
            wins[0] += sum(random.random() < 0.5 for _ in range(4))
            p = [(wins[0] + 0.5) / (4 * n + 1), (wins[1] + 0.5) / (n + 1)]
            variance = p[1] * (1 - p[1]) / n + p[0] * (1 - p[0]) / (4 * n)
            harm = Difference(estimate=wins[0] / (4 * n) - wins[1] / n, variance=variance)
            if n >= FIRST_GUARD and guardrail_e_value(harm, tau=0.15) >= 100:
                needed.append(n)
                break

    assert len(needed) == 100
    assert sorted(needed)[94] <= 179
