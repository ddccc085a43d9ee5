"""The plots of the pages, drawn on the server without scripts: lines over days, bars by week, histories, intervals.

SVG templates add the marks and colours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from evaluation.reports.geometry import Axis, join_points

WIDTH, HEIGHT = 340, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 6, 8, 18
SPARK_WIDTH, SPARK_HEIGHT = 120, 28
WEEKS = 8
INTERVAL_WIDTH, _EDGE = 96, 4
HISTORY_WIDTH, HISTORY_HEIGHT, _HISTORY_MARGIN = 320, 96, 6


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

    height = Axis(low=0, high=scale.top, start=HEIGHT - _BOTTOM, end=_TOP).at
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
    height = Axis(low=0, high=top, start=SPARK_HEIGHT - 2, end=2).at
    return join_points(zip(xs, map(height, values), strict=True))


def _spread(count: int, first: float, last: float) -> list[float]:
    across = Axis(low=0, high=max(count - 1, 1), start=first, end=last)
    return [across.at(number) for number in range(count)]


def _parts(xs: Sequence[float], ys: Sequence[float | None]) -> list[str]:
    """Return one polyline for each stretch of days that have a value; a lone day is a short dash."""
    parts: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if y is not None:
            parts[-1].append((x, y))
        elif parts[-1]:
            parts.append([])
    return [join_points(part if len(part) > 1 else _dash(*part[0])) for part in parts if part]


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
    return join_points(there + back) if len(sure) > 1 else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One week of a chart: a stack of two numbers, drawn bottom up in a field 100 high."""

    week: datetime
    first: int
    second: int
    x: float
    first_y: float
    first_height: float
    second_y: float
    second_height: float
    link: str

    @property
    def total(self) -> int:
        return self.first + self.second


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Bars by week, with labels for screen readers."""

    title: str
    first_label: str
    second_label: str
    bars: list[Bar]
    highest: int


def draw_weeks(
    title: str,
    first_label: str,
    second_label: str,
    counts: Mapping[datetime, tuple[int, int]],
    *,
    start: datetime,
    link: Callable[[datetime, datetime], str],
) -> Chart:
    """Draw two numbers a week; `link` leads from a week's first and last moment to the list behind them."""
    highest = max((sum(pair) for pair in counts.values()), default=0)
    scale = 100 / highest if highest else 0
    bars = []
    for number in range(WEEKS):
        week = start + timedelta(weeks=number)
        first, second = counts.get(week, (0, 0))
        bars.append(
            Bar(
                week=week,
                first=first,
                second=second,
                x=number * 40 + 4,
                first_height=first * scale,
                first_y=110 - first * scale,
                second_height=second * scale,
                second_y=110 - (first + second) * scale,
                link=link(week, week + timedelta(days=7)),
            )
        )
    return Chart(title=title, first_label=first_label, second_label=second_label, bars=bars, highest=highest)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlottedInterval:
    """An estimate with its interval, as pixels of a drawing in one line; the middle is zero."""

    low: float
    at: float
    high: float
    middle: float
    width: int


def draw_interval(low: float, estimate: float, high: float, *, reach: float) -> PlottedInterval:
    """Draw an interval on a scale from -reach to reach, so that several can be compared along a line."""
    x = Axis(low=-reach, high=reach, start=_EDGE, end=INTERVAL_WIDTH - _EDGE).at
    return PlottedInterval(low=x(low), at=x(estimate), high=x(high), middle=INTERVAL_WIDTH / 2, width=INTERVAL_WIDTH)


def place_scores(scores: Sequence[float]) -> list[tuple[float, float]]:
    """Return where scores from 0 to 1 lie on a drawing of HISTORY_WIDTH by HISTORY_HEIGHT, the oldest left."""
    xs = _spread(len(scores), _HISTORY_MARGIN, HISTORY_WIDTH - _HISTORY_MARGIN)
    return list(zip(xs, map(score_height, scores), strict=True))


def score_height(score: float) -> float:
    """Return the height of a score on such a drawing."""
    return Axis(low=0, high=1, start=HISTORY_HEIGHT - _HISTORY_MARGIN, end=_HISTORY_MARGIN).at(score)
