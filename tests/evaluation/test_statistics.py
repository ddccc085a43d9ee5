"""Intervals against scipy and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from evaluation.reports.statistics import (
    bootstrap_mean,
    estimate_share,
    paired_difference,
    smallest_visible_difference,
    tasks_needed,
)

FIGURES = np.random.default_rng(7).beta(2, 5, size=120).tolist()


def test_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    ours = bootstrap_mean(FIGURES)

    theirs = stats.bootstrap(
        (FIGURES,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval

    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.05 * width)


def test_same_seed_gives_the_same_interval() -> None:
    assert bootstrap_mean(FIGURES, seed=3) == bootstrap_mean(FIGURES, seed=3)


def test_paired_difference_of_constant_gain_has_no_width() -> None:
    estimate = paired_difference([value + 0.1 for value in FIGURES], FIGURES)

    assert [estimate.low, estimate.high] == pytest.approx([0.1, 0.1])


def test_paired_difference_of_unequal_arms_is_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1 tasks"):
        paired_difference([1, 0], [1])


def test_no_tasks_give_no_figure() -> None:
    assert math.isnan(bootstrap_mean([]).mean)


def test_fifty_tasks_show_no_less_than_twelve_points() -> None:
    assert smallest_visible_difference(50) == pytest.approx(0.124, abs=0.001)


def test_five_points_need_about_630_tasks_for_80_percent_power() -> None:
    assert tasks_needed(0.05) == pytest.approx(627, abs=5)


@pytest.mark.parametrize(("count", "n"), [(18, 18), (0, 18), (1, 1), (7, 30), (1499, 1500), (600, 1500)])
def test_interval_of_a_share_is_that_of_clopper_and_pearson(count: int, n: int) -> None:
    ours = estimate_share([1.0] * count + [0.0] * (n - count))

    theirs = stats.binomtest(count, n).proportion_ci(method="exact")
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=1e-9)


@pytest.mark.parametrize(
    ("value", "bounds", "interval"),
    [
        (1.0, (0, 1), [0.815, 1.0]),
        (0.0, (0, 1), [0.0, 0.185]),
        (1.0, (-1, 1), [0.629, 1.0]),
        (0.0, (-1, 1), [-0.185, 0.185]),
    ],
)
def test_figures_that_are_all_the_same_leave_doubt(
    value: float, bounds: tuple[float, float], interval: list[float]
) -> None:
    estimate = bootstrap_mean([value] * 18, bounds=bounds)

    assert [estimate.low, estimate.high] == pytest.approx(interval, abs=0.001)
