"""Confidence intervals. The task is the statistical unit; arms are compared task by task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
DISCORDANT = 0.2  # share of tasks that differ between two arms
POWER_Z = 0.8416  # normal quantile of a power of 80 %
_CHUNK = 500  # resamples drawn at once, to limit memory with thousands of tasks
_MAX_CACHED_DRAWS = 16_000_000  # of four bytes each


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean over `n` tasks with its 95% interval. With n = 0 all three figures are NaN."""

    mean: float
    low: float
    high: float
    n: int


def bootstrap_mean(values: Sequence[float], *, seed: int = 0) -> Estimate:
    """Estimate a mean with a 95% percentile bootstrap interval (Efron 1979), tasks resampled with replacement.

    Args:
        values: one figure per task; average the trials of a task first, since they are not independent.
    """
    figures = np.asarray(values, dtype=np.float64)
    n = len(figures)
    if n == 0:
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"), n=0)
    means = np.concatenate(list(_resampled_means(figures, seed=seed)))
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(mean=float(figures.mean()), low=float(low), high=float(high), n=n)


def paired_difference(treated: Sequence[float], control: Sequence[float], *, seed: int = 0) -> Estimate:
    """Estimate the mean difference of two arms on the same tasks, in the same order.

    Raises:
        ValueError: the arms differ in length, so the tasks cannot be paired.
    """
    if len(treated) != len(control):
        raise ValueError(f"The arms have {len(treated)} and {len(control)} tasks; a paired difference needs the same.")
    differences = np.asarray(treated, dtype=np.float64) - np.asarray(control, dtype=np.float64)
    return bootstrap_mean(differences.tolist(), seed=seed)


def smallest_visible_difference(n: int) -> float:
    """Return the smallest paired difference whose 95% interval excludes zero with `n` tasks.

    Uses the normal approximation for McNemar's test: if a share DISCORDANT of the tasks differs between the arms,
    the standard error of the paired difference is sqrt(DISCORDANT / n).
    """
    return 1.96 * sqrt(DISCORDANT / n) if n else float("inf")


def tasks_needed(difference: float) -> int:
    """Return how many tasks detect a paired difference with 80 % power at the 5 % level (same approximation)."""
    return ceil(((1.96 * sqrt(DISCORDANT) + POWER_Z * sqrt(max(DISCORDANT - difference**2, 0))) / difference) ** 2)


def _resampled_means(figures: npt.NDArray[np.float64], *, seed: int) -> Iterator[npt.NDArray[np.float64]]:
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
