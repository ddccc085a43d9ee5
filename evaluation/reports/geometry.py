"""Where values lie on a drawing. The plots of pages and of reports use it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """Where values lie on a drawing: `low` at the pixel `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], *, start: float, end: float, room: float, least: float) -> "Axis":
        """Return an axis with room on both sides of the values: a share of their range, or `least` where they agree."""
        numbers = list(values)
        spare = (max(numbers) - min(numbers)) * room or least
        return cls(low=min(numbers) - spare, high=max(numbers) + spare, start=start, end=end)

    def at(self, value: float) -> float:
        """Return the pixel of a value; one outside is drawn at the edge."""
        inside = min(max(value, self.low), self.high)
        return round(self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def join_points(points: Iterable[tuple[float, float]]) -> str:
    """Return points as SVG has them."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
