"""Bar charts by week, drawn on the server without scripts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

WEEKS = 8


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


def midnight(at: datetime) -> datetime:
    """Return the beginning of a day."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def first_week(now: datetime) -> datetime:
    """Return the Monday that the charts begin with."""
    return midnight(now - timedelta(days=now.weekday())) - timedelta(weeks=WEEKS - 1)


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
