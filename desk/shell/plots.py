"""The plots of the pages, drawn on the server without scripts: lines over days, bars by week, histories, intervals.

SVG templates add the marks and colours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

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
class Plot:
    """Lines over the same days. `summary` is what they say in words, for those who do not see them.

    Each line has its label and style, and its SVG points in `parts`: where days are missing, it is in several. `band`
    is the area between its edges.
    """

    title: str
    summary: str
    lines: list[dict[str, Any]]
    top_label: str
    first_day: date
    last_day: date

    @property
    def is_empty(self) -> bool:
        return not any(line["parts"] for line in self.lines)


def draw_plot(
    title: str,
    series: Sequence[Series],
    *,
    days: Sequence[date],
    summary: str,
    unit: str = "{:,.0f}",
    is_share: bool = False,
) -> Plot:
    """Draw lines over days, up to their highest value or, for shares, up to 100%."""
    highest = max((value for line in series for value in line.values if value is not None), default=0) or 1
    top = 1.0 if is_share else highest
    xs = _spread(len(days), _LEFT, WIDTH - _RIGHT)
    height = Axis(low=0, high=top, start=HEIGHT - _BOTTOM, end=_TOP).at
    lines = []
    for line in series:
        # One polyline for each stretch of days that have a value; a lone day is a short dash.
        stretches: list[list[tuple[float, float]]] = [[]]
        for x, value in zip(xs, line.values, strict=True):
            if value is not None:
                stretches[-1].append((x, height(value)))
            elif stretches[-1]:
                stretches.append([])
        parts = []
        for points in filter(None, stretches):
            x, y = points[0]
            parts.append(join_points(points if len(points) > 1 else [(x - 4, y), (x + 4, y)]))
        lines.append({"label": line.label, "style": line.style, "parts": parts, "band": _band(xs, line, height)})
    top_label = "100%" if is_share else unit.format(top)
    return Plot(title=title, summary=summary, lines=lines, top_label=top_label, first_day=days[0], last_day=days[-1])


def draw_sparkline(values: Sequence[float]) -> str:
    """Return the points of a small line, the highest value at the top."""
    top = max(values, default=0) or 1
    xs = _spread(len(values), 2, SPARK_WIDTH - 2)
    height = Axis(low=0, high=top, start=SPARK_HEIGHT - 2, end=2).at
    return join_points(zip(xs, map(height, values), strict=True))


def _spread(count: int, first: float, last: float) -> list[float]:
    across = Axis(low=0, high=max(count - 1, 1), start=first, end=last)
    return [across.at(number) for number in range(count)]


def _band(xs: Sequence[float], series: Series, height: Callable[[float], float]) -> str:
    if not series.lows:
        return ""
    sure = [
        (x, low, high)
        for x, low, high in zip(xs, series.lows, series.highs, strict=True)
        if low is not None and high is not None
    ]
    # Along the upper edge, and back along the lower one.
    there = [(x, height(high)) for x, _, high in sure]
    back = [(x, height(low)) for x, low, _ in reversed(sure)]
    return join_points(there + back) if len(sure) > 1 else ""


def draw_weeks(
    title: str,
    first_label: str,
    second_label: str,
    counts: Mapping[datetime, tuple[int, int]],
    *,
    start: datetime,
    link: Callable[[datetime, datetime], str],
) -> dict[str, Any]:
    """Draw two numbers a week as a stack, bottom up in a field 100 high, with labels for screen readers.

    `link` leads from a week's first and last moment to the list behind them.
    """
    highest = max((sum(pair) for pair in counts.values()), default=0)
    scale = 100 / highest if highest else 0
    bars = []
    for number in range(WEEKS):
        week = start + timedelta(weeks=number)
        first, second = counts.get(week, (0, 0))
        bars.append(
            {
                "week": week,
                "first": first,
                "second": second,
                "total": first + second,
                "x": number * 40 + 4,
                "first_height": first * scale,
                "first_y": 110 - first * scale,
                "second_height": second * scale,
                "second_y": 110 - (first + second) * scale,
                "link": link(week, week + timedelta(days=7)),
            }
        )
    return {"title": title, "first_label": first_label, "second_label": second_label, "bars": bars, "highest": highest}


def draw_interval(low: float, estimate: float, high: float, *, reach: float) -> dict[str, float]:
    """Draw an interval as pixels on a scale from -reach to reach, so that several can be compared along a line."""
    x = Axis(low=-reach, high=reach, start=_EDGE, end=INTERVAL_WIDTH - _EDGE).at
    return {"low": x(low), "at": x(estimate), "high": x(high), "middle": INTERVAL_WIDTH / 2, "width": INTERVAL_WIDTH}


def place_scores(scores: Sequence[float]) -> list[tuple[float, float]]:
    """Return where scores from 0 to 1 lie on a drawing of HISTORY_WIDTH by HISTORY_HEIGHT, the oldest left."""
    xs = _spread(len(scores), _HISTORY_MARGIN, HISTORY_WIDTH - _HISTORY_MARGIN)
    return list(zip(xs, map(score_height, scores), strict=True))


def score_height(score: float) -> float:
    """Return the height of a score on such a drawing."""
    return Axis(low=0, high=1, start=HISTORY_HEIGHT - _HISTORY_MARGIN, end=_HISTORY_MARGIN).at(score)
