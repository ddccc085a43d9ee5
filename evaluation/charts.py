"""Where bars, points and lines are: numbers for the SVG templates. Colours are theirs."""

from typing import Any

WIDTH, LABELS, ROW = 720, 190, 26
CURVE_HEIGHT, MARGIN = 260, 48


def draw_bars(rows: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Lay out one bar a row with its interval, around a line at zero; empty without rows."""
    if len(rows) < 2:
        return {}
    edges = [row[metric][edge] for row in rows for edge in ("low", "high", "mean")]
    low, high = min([0.0, *edges]), max([0.0, *edges])
    room = (high - low) * 0.05 or 0.05
    low, high = low - room, high + room

    def x(value: float) -> float:
        return float(round(LABELS + (value - low) / (high - low) * (WIDTH - LABELS - 70), 1))

    bars = []
    for place, row in enumerate(rows):
        estimate = row[metric]
        start, end = sorted((x(0), x(estimate["mean"])))
        bars.append(
            {
                "label": row["arm"],
                "text": f"{estimate['mean']:+.3f}",
                "title": f"{row['arm']}: {estimate['mean']:+.3f}, 95 % between {estimate['low']:+.3f} and "
                f"{estimate['high']:+.3f}, n = {estimate['n']}",
                "x": start,
                "width": max(round(end - start, 1), 1),
                "y": place * ROW + 6,
                "middle": place * ROW + 13,
                "low": x(estimate["low"]),
                "high": x(estimate["high"]),
                "harm": estimate["mean"] < 0,
            }
        )
    return {"bars": bars, "zero": x(0), "width": WIDTH, "height": len(rows) * ROW + 24, "bottom": len(rows) * ROW + 4}


def draw_curve(points: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Lay out a line over the number of earlier tasks with its interval as a band; empty without two points."""
    if len(points) < 2:
        return {}
    last = points[-1]["x"]
    edges = [point[metric][edge] for point in points for edge in ("low", "high")]
    low, high = min(edges), max(edges)
    room = (high - low) * 0.1 or 0.05
    low, high = low - room, high + room

    def x(value: float) -> float:
        return float(round(MARGIN + value / last * (WIDTH - 2 * MARGIN), 1))

    def y(value: float) -> float:
        return float(round(16 + (high - value) / (high - low) * (CURVE_HEIGHT - MARGIN - 16), 1))

    dots = [
        {
            "x": x(point["x"]),
            "y": y(point[metric]["mean"]),
            "label": point["x"],
            "title": f"After {point['x']} tasks: {point[metric]['mean']:.3f}, 95 % between {point[metric]['low']:.3f} "
            f"and {point[metric]['high']:.3f}",
        }
        for point in points
    ]
    upper = [f"{x(point['x'])},{y(point[metric]['high'])}" for point in points]
    lower = [f"{x(point['x'])},{y(point[metric]['low'])}" for point in reversed(points)]
    ticks = [{"y": y(value), "label": f"{value:.2f}"} for value in (low + room, (low + high) / 2, high - room)]
    return {
        "dots": dots,
        "line": " ".join(f"{dot['x']},{dot['y']}" for dot in dots),
        "band": " ".join(upper + lower),
        "ticks": ticks,
        "width": WIDTH,
        "height": CURVE_HEIGHT,
        "bottom": CURVE_HEIGHT - MARGIN,
        "left": MARGIN,
        "right": WIDTH - MARGIN,
        "label_y": CURVE_HEIGHT - MARGIN + 18,
        "title_y": CURVE_HEIGHT - MARGIN + 38,
    }
