"""Intervals and their reading: the task is the unit, arms are compared in pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
_CHUNK = 500  # resamples drawn at once, so that memory stays small for thousands of tasks
_REMEMBERED = 16_000_000  # draws, of four bytes each


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with its 95 % interval over `n` tasks. With n = 0 all three figures are NaN."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def bootstrap_mean(values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Estimate a mean with a 95 % percentile bootstrap interval (Efron 1979), tasks resampled with replacement.

    Args:
        values: one figure a task; trials of one task are averaged before, since they are not independent.
    """
    figures = np.asarray(values, dtype=np.float64)
    n = len(figures)
    if n == 0:
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"), n=0)
    means = np.concatenate(list(_resampled_means(figures, seed=seed, resamples=resamples)))
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(mean=float(figures.mean()), low=float(low), high=float(high), n=n)


def paired_difference(
    treated: Sequence[float], control: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Estimate the mean difference of two arms on the same tasks, in the same order.

    Raises:
        ValueError: the arms differ in length, so the tasks cannot be paired.
    """
    if len(treated) != len(control):
        raise ValueError(f"The arms have {len(treated)} and {len(control)} tasks; a paired difference needs the same.")
    differences = np.asarray(treated, dtype=np.float64) - np.asarray(control, dtype=np.float64)
    return bootstrap_mean(differences.tolist(), seed=seed, resamples=resamples)


def smallest_visible_difference(n: int, *, discordant: float = 0.2) -> float:
    """Return the smallest paired difference whose 95 % interval just clears zero with `n` tasks.

    From the normal approximation of McNemar's setting: with a share `discordant` of tasks that differ between the
    arms, the standard error of the paired difference is sqrt(discordant / n).
    """
    return 1.96 * sqrt(discordant / n) if n else float("inf")


def tasks_needed(difference: float, *, discordant: float = 0.2, power_z: float = 0.8416) -> int:
    """Return how many tasks show a paired difference with 80 % power at the 5 % level (same approximation)."""
    return ceil(((1.96 * sqrt(discordant) + power_z * sqrt(max(discordant - difference**2, 0))) / difference) ** 2)


def _resampled_means(
    figures: npt.NDArray[np.float64], *, seed: int, resamples: int
) -> Iterator[npt.NDArray[np.float64]]:
    draw = _draw_once if len(figures) * resamples <= _REMEMBERED else _draw
    for drawn in draw(len(figures), seed, resamples):
        yield figures.take(drawn).mean(axis=1)


def _draw(n: int, seed: int, resamples: int) -> Iterator[npt.NDArray[np.int32]]:
    """Yield which tasks each resample consists of, a chunk at a time."""
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, _CHUNK):
        yield generator.integers(0, n, size=(min(_CHUNK, resamples - start), n)).astype(np.int32)


@lru_cache(maxsize=1)  # the arms of a suite have the same tasks, and so the same draws
def _draw_once(n: int, seed: int, resamples: int) -> tuple[npt.NDArray[np.int32], ...]:
    return tuple(_draw(n, seed, resamples))
