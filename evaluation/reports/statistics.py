"""Confidence intervals. The task is the statistical unit; arms are compared task by task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, lgamma, log, log1p, sqrt

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
DISCORDANT = 0.2  # share of tasks that differ between two arms
POWER_Z = 0.8416  # normal quantile of a power of 80 %
_TAIL = 0.025  # on each side of a 95% interval
_BISECTIONS = 40  # to 1e-12
_CHUNK = 500  # resamples drawn at once, to limit memory with thousands of tasks
_MAX_CACHED_DRAWS = 16_000_000  # of four bytes each


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean over `n` tasks with its 95% interval. With n = 0 all three figures are NaN."""

    mean: float
    low: float
    high: float
    n: int


def bootstrap_mean(values: Sequence[float], *, seed: int = 0, bounds: tuple[float, float] | None = None) -> Estimate:
    """Estimate a mean with a 95% percentile bootstrap interval (Efron 1979), tasks resampled with replacement.

    Args:
        values: one figure per task; average the trials of a task first, since they are not independent.
        bounds: the least and the greatest figure there can be. With them, figures that are all the same get the
            exact interval of what may have gone unseen; the bootstrap alone would leave no doubt at all.
    """
    figures = np.asarray(values, dtype=np.float64)
    n = len(figures)
    if n == 0:
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"), n=0)
    if bounds is not None and (figures == figures[0]).all():
        # If another figure came with a probability above this, n in a row without one would be rarer than 1 in 40.
        # For shares it is the interval of Clopper and Pearson.
        value, (least, greatest), unseen = float(figures[0]), bounds, 1 - _TAIL ** (1 / n)
        return Estimate(mean=value, low=value - unseen * (value - least), high=value + unseen * (greatest - value), n=n)
    means = np.concatenate(list(_resampled_means(figures, seed=seed)))
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(mean=float(figures.mean()), low=float(low), high=float(high), n=n)


def estimate_share(values: Sequence[float]) -> Estimate:
    """Estimate a share with the exact 95% interval of Clopper and Pearson (1934).

    Its ends are the shares at which so many or more, and so few or fewer, would come in 2.5% of samples.

    Args:
        values: 1 for each task that counts, else 0.
    """
    n, count = len(values), round(sum(values))
    if n == 0:
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"), n=0)
    return Estimate(mean=count / n, low=_find_limit(count, n), high=1 - _find_limit(n - count, n), n=n)


def paired_difference(
    treated: Sequence[float], control: Sequence[float], *, seed: int = 0, bounds: tuple[float, float] | None = None
) -> Estimate:
    """Estimate the mean difference of two arms on the same tasks, in the same order; see `bootstrap_mean`.

    Raises:
        ValueError: the arms differ in length, so the tasks cannot be paired.
    """
    if len(treated) != len(control):
        raise ValueError(f"The arms have {len(treated)} and {len(control)} tasks; a paired difference needs the same.")
    differences = np.asarray(treated, dtype=np.float64) - np.asarray(control, dtype=np.float64)
    return bootstrap_mean(differences.tolist(), seed=seed, bounds=bounds)


def smallest_visible_difference(n: int) -> float:
    """Return the smallest paired difference whose 95% interval excludes zero with `n` tasks.

    Uses the normal approximation for McNemar's test: if a share DISCORDANT of the tasks differs between the arms,
    the standard error of the paired difference is sqrt(DISCORDANT / n).
    """
    return 1.96 * sqrt(DISCORDANT / n) if n else float("inf")


def tasks_needed(difference: float) -> int:
    """Return how many tasks detect a paired difference with 80 % power at the 5 % level (same approximation)."""
    return ceil(((1.96 * sqrt(DISCORDANT) + POWER_Z * sqrt(max(DISCORDANT - difference**2, 0))) / difference) ** 2)


def _find_limit(count: int, n: int) -> float:
    """Return the share at which `count` or more of `n` come in 2.5% of samples, by bisection."""
    if count == 0:
        return 0.0
    numbers = range(count, n + 1)
    # In logarithms: the binomial coefficients of thousands of tasks do not fit a float.
    ways = np.array([lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in numbers])
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        share = (low + high) / 2
        logs = ways + np.array(numbers) * log(share) + (n - np.array(numbers)) * log1p(-share)
        if np.exp(logs).sum() < _TAIL:
            low = share
        else:
            high = share
    return low


def _resampled_means(figures: npt.NDArray[np.float64], *, seed: int) -> Iterator[npt.NDArray[np.float64]]:
    # Arms that are compared have the same tasks, so the same draws serve all of them.
    draw = _draw_cached if len(figures) * RESAMPLES <= _MAX_CACHED_DRAWS else _draw
    for drawn in draw(len(figures), seed):
        yield figures.take(drawn).mean(axis=1)


def _draw(n: int, seed: int) -> Iterator[npt.NDArray[np.int32]]:
    """Yield the task indices of the resamples, a chunk at a time."""
    generator = np.random.default_rng(seed)
    for start in range(0, RESAMPLES, _CHUNK):
        yield generator.integers(0, n, size=(min(_CHUNK, RESAMPLES - start), n)).astype(np.int32)


@lru_cache(maxsize=1)  # all arms of a suite have the same tasks and draws
def _draw_cached(n: int, seed: int) -> tuple[npt.NDArray[np.int32], ...]:
    return tuple(_draw(n, seed))
