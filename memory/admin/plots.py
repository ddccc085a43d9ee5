"""Lines over time, drawn on the server without scripts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

WIDTH, HEIGHT = 340, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 6, 8, 18
SPARK_WIDTH, SPARK_HEIGHT = 120, 28


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line: a value a day, None where there is none. `lows` and `highs` are the edges of a band around it."""

    label: str
    style: str
    values: Sequence[float | None]
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line as SVG points; where days are missing, it is in several parts."""

    label: str
    style: str
    parts: list[str]
    band: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """Lines over the same days. `said` is what they say in words, for those who do not see them."""

    title: str
    said: str
    lines: list[Line]
    top_label: str
    first_day: date
    last_day: date

    @property
    def is_empty(self) -> bool:
        return not any(line.parts for line in self.lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """What the axis goes up to, and how that is written."""

    top: float
    label: str

    @classmethod
    def percent(cls) -> "Scale":
        return cls(top=1.0, label="100%")

    @classmethod
    def count(cls, series: Sequence[Series], unit: str = "{:,.0f}") -> "Scale":
        top = max((value for each in series for value in each.values if value is not None), default=0) or 1
        return cls(top=top, label=unit.format(top))


def draw_plot(title: str, series: Sequence[Series], *, days: Sequence[date], scale: Scale, said: str) -> Plot:
    """Draw lines over days."""
    xs = _spread(len(days), _LEFT, WIDTH - _RIGHT)

    def height(value: float) -> float:
        return _TOP + (1 - min(value / scale.top, 1.0)) * (HEIGHT - _TOP - _BOTTOM)

    lines = [
        Line(
            label=each.label,
            style=each.style,
            parts=_parts(xs, [None if value is None else height(value) for value in each.values]),
            band=_band(xs, each, height),
        )
        for each in series
    ]
    return Plot(title=title, said=said, lines=lines, top_label=scale.label, first_day=days[0], last_day=days[-1])


def draw_sparkline(values: Sequence[float]) -> str:
    """Return the points of a small line, the highest value at the top."""
    top = max(values, default=0) or 1
    xs = _spread(len(values), 2, SPARK_WIDTH - 2)
    ys = [2 + (1 - value / top) * (SPARK_HEIGHT - 4) for value in values]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _spread(count: int, first: float, last: float) -> list[float]:
    step = (last - first) / max(count - 1, 1)
    return [first + number * step for number in range(count)]


def _parts(xs: Sequence[float], ys: Sequence[float | None]) -> list[str]:
    """Return one polyline for each stretch of days that have a value; a lone day is a short dash."""
    parts: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if y is not None:
            parts[-1].append((x, y))
        elif parts[-1]:
            parts.append([])
    return [_points(part if len(part) > 1 else _dash(*part[0])) for part in parts if part]


def _dash(x: float, y: float) -> list[tuple[float, float]]:
    return [(x - 4, y), (x + 4, y)]


def _band(xs: Sequence[float], series: Series, height: Callable[[float], float]) -> str:
    if not series.lows:
        return ""
    sure = [
        (x, low, high)
        for x, low, high in zip(xs, series.lows, series.highs, strict=True)
        if low is not None and high is not None
    ]
    there = [(x, height(high)) for x, _, high in sure]
    back = [(x, height(low)) for x, low, _ in reversed(sure)]
    return _points(there + back) if len(sure) > 1 else ""


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
