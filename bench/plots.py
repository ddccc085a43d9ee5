"""Plots of benchmarks as SVG, drawn by the commands that measure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLOURS = ("#1f77b4", "#e08214", "#4d9221", "#8073ac", "#999999")
BAR, GAP, HEIGHT, LEFT, TOP = 26, 34, 220, 46, 46
LETTER = 7  # the width of one, about
LABEL_BREAK = ", |_"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A measured value with its 95% interval; `baseline` is drawn as a line across the group's bars."""

    group: str
    series: str
    value: float
    low: float
    high: float
    baseline: float | None = None


def draw_bars(bars: Sequence[Bar], *, title: str, path: Path) -> None:
    """Write grouped bars with intervals, on a scale from 0 to 1."""
    groups = list(dict.fromkeys(bar.group for bar in bars))
    series = list(dict.fromkeys(bar.series for bar in bars))
    group_width = len(series) * BAR + GAP
    # Two groups may be narrower than the legend or the title.
    legend = [max(110, 30 + LETTER * len(name)) for name in series]
    width = LEFT + 10 + max(len(groups) * group_width, sum(legend), LETTER * len(title))
    height = TOP + HEIGHT + 34 + 14 * max(len(re.split(LABEL_BREAK, name)) for name in groups)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" font-family="system-ui, sans-serif" font-size="12">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in range(0, 11, 2):
        y = _y(tick / 10)
        parts.append(f'<line x1="{LEFT}" x2="{width - 10}" y1="{y}" y2="{y}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end" fill="#444444">{tick / 10:.1f}</text>')
    for index, name in enumerate(series):
        x = LEFT + sum(legend[:index])
        parts.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 17}" y="20" fill="#222222">{escape(name)}</text>')
    for bar in bars:
        left = LEFT + groups.index(bar.group) * group_width + GAP // 2
        x, index = left + series.index(bar.series) * BAR, series.index(bar.series)
        label = escape(f"{bar.group}, {bar.series}: {bar.value:.3f} ({bar.low:.3f}–{bar.high:.3f})")
        middle = x + (BAR - 4) / 2
        parts += [
            (
                f'<g><title>{label}</title><rect x="{x}" y="{_y(bar.value)}" width="{BAR - 4}" '
                f'height="{round(HEIGHT * bar.value, 1)}" fill="{COLOURS[index % len(COLOURS)]}"/>'
            ),
            f'<line x1="{middle}" x2="{middle}" y1="{_y(bar.high)}" y2="{_y(bar.low)}" stroke="#111111"/>',
            (
                f'<text x="{middle}" y="{_y(bar.high) - 4}" text-anchor="middle" font-size="9" fill="#222222">'
                f"{bar.value:.2f}</text></g>"
            ),
        ]
        if bar.baseline is not None:
            y = _y(bar.baseline)
            parts.append(
                f'<line x1="{left - 5}" x2="{left + len(series) * BAR}" y1="{y}" y2="{y}" stroke="#c51b7d" '
                'stroke-dasharray="4 3"/>'
            )
    for index, name in enumerate(groups):
        centre = LEFT + index * group_width + group_width / 2
        for row, line in enumerate(re.split(LABEL_BREAK, name)):
            baseline = TOP + HEIGHT + 18 + 14 * row
            parts.append(f'<text x="{centre}" y="{baseline}" text-anchor="middle" fill="#222222">{escape(line)}</text>')
    parts.append(f'<text x="{LEFT}" y="{height - 8}" font-size="10" fill="#666666">{escape(title)}</text></svg>')
    path.write_text("\n".join(parts) + "\n")


def _y(value: float) -> float:
    return round(TOP + HEIGHT * (1 - value), 1)
