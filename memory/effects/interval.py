"""How sure a share of successes is."""

from dataclasses import dataclass
from math import sqrt

_Z = 1.959964  # 95 %, both sides


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Successes among runs whose end is known, with the interval of Wilson (1927), 95 %, from 0 to 1."""

    successes: int
    known: int

    @property
    def rate(self) -> float | None:
        return self.successes / self.known if self.known else None

    @property
    def low(self) -> float:
        return max(self._middle() - self._reach(), 0.0)

    @property
    def high(self) -> float:
        # Without runs nothing is ruled out, and the sum may fall short of 1 by rounding.
        return min(self._middle() + self._reach(), 1.0) if self.known else 1.0

    def __str__(self) -> str:
        """Write it as "62% (48–74%, 50 runs)"."""
        if self.rate is None:
            return "–"
        runs = "run" if self.known == 1 else "runs"
        return f"{100 * self.rate:.0f}% ({100 * self.low:.0f}–{100 * self.high:.0f}%, {self.known:,} {runs})"

    def _middle(self) -> float:
        n = self.known
        return (self.successes + _Z**2 / 2) / (n + _Z**2)

    def _reach(self) -> float:
        n = self.known
        p = self.rate or 0.0
        return _Z / (n + _Z**2) * sqrt(n * p * (1 - p) + _Z**2 / 4)
