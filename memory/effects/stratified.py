"""The difference of two success rates, compared within strata, with an interval that holds at every look.

A stratum holds runs that agree in all that was known before they began. Arms are never pooled over strata: where
the mix of tasks and success both differ, that feigns an effect (Simpson).
"""

from dataclasses import dataclass
from math import log, sqrt

ALPHA = 0.05
TAU = 0.1  # the spread of effects that the interval is best at: ten points
FEWEST_RUNS = 30  # on each side, from which the difference counts as normal
# As if one more pair had disagreed half the time: without it, arms whose runs all ended the same leave no doubt.
_DOUBT = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Treated minus control, and the variance of that estimate."""

    estimate: float
    variance: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    low: float
    high: float


def confidence_sequence(difference: Difference, *, tau: float, alpha: float) -> Interval:
    """Return the interval of all effects that the mixture SPRT does not reject (Johari et al. 2017, section 4).

    D ± √( s²(s²+τ²)/τ² · (2 ln(1/α) + ln(1 + τ²/s²)) ). With probability 1 − α it contains the effect at all looks.
    """
    variance, prior = difference.variance, tau * tau
    reach = sqrt(variance * (variance + prior) / prior * (2 * log(1 / alpha) + log(1 + prior / variance)))
    return Interval(low=difference.estimate - reach, high=difference.estimate + reach)


@dataclass(frozen=True, kw_only=True, slots=True)
class Strata:
    """Sums over strata that have runs on both sides; those of two sets of strata add up.

    `given` and `without` count the runs. For a stratum with n treated and m control runs, N together, `weight` is nm/N
    (Mantel and Haenszel's); `gain` is that times the difference; `null` is the variance of the treated successes if
    treatment does nothing (Cochran 1954; Mantel, Haenszel 1959); `spread` and `slope` are Q and P of Sato (1989), whose
    variance holds for few large strata and for many small ones.
    """

    given: int = 0
    without: int = 0
    weight: float = 0.0
    gain: float = 0.0
    null: float = 0.0
    spread: float = 0.0
    slope: float = 0.0

    @classmethod
    def of(cls, given: int, good: int, without: int, other_good: int, *, times: int = 1) -> "Strata":
        """Return the sums of a stratum, which occurs so many times; nothing where a side is empty."""
        if not given or not without:
            return cls()
        n, m, a, b = given, without, good, other_good
        whole, succeeded = n + m, a + b
        return cls(
            given=times * n,
            without=times * m,
            weight=times * n * m / whole,
            gain=times * (a * m - b * n) / whole,
            null=times * n * m * succeeded * (whole - succeeded) / (whole * whole * (whole - 1)),
            spread=times * (a * (m - b) + b * (n - a)) / (2 * whole),
            slope=times * (n * n * b - m * m * a + n * m * (m - n) / 2) / whole**2,
        )

    def __add__(self, other: "Strata") -> "Strata":
        return Strata(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})

    @property
    def difference(self) -> Difference | None:
        """Return the pooled difference of Mantel and Haenszel; None where no stratum has runs on both sides.

        The variance is the larger of two: that without an effect, and Sato's. By Sato's alone, a small side in which
        all runs happen to end the same would look far more certain than it is.
        """
        if not self.weight:
            return None
        estimate = self.gain / self.weight
        variance = max(self.null, estimate * self.slope + self.spread) + _DOUBT
        return Difference(estimate=estimate, variance=variance / self.weight**2)

    def find_interval(self, *, alpha: float = ALPHA) -> Interval | None:
        """Return the interval of the difference, at all looks together; None where too few runs can be compared."""
        difference = self.difference
        if difference is None or min(self.given, self.without) < FEWEST_RUNS:
            return None
        return confidence_sequence(difference, tau=TAU, alpha=alpha)
