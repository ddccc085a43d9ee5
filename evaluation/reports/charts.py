"""Compute the geometry of the charts; the SVG templates add the colours."""

import re
from typing import Any

from evaluation.reports.geometry import Axis, join_points

WIDTH, LABELS, ROW = 720, 190, 26
CURVE_HEIGHT, COST_HEIGHT, MARGIN, LABEL_ROW = 260, 320, 48, 19
MOST_POINTS = 200  # of a line
WIDEST = 0.5  # how far from the estimate an early interval is drawn
_DOSE = re.compile(r"^hybrid:(\d+)$")


def draw_bars(rows: list[dict[str, Any]], metric: str, *, sign: str = "+") -> dict[str, Any]:
    """Lay out one bar per row with its interval, around a line at zero; empty with fewer than two rows.

    Args:
        sign: "+" for differences, "" for other figures.
    """
    if len(rows) < 2:
        return {}
    edges = [row[metric][edge] for row in rows for edge in ("low", "high", "mean")]
    x = Axis.around([0.0, *edges], start=LABELS, end=WIDTH - 70, room=0.05, least=0.05).at
    bars = []
    for position, row in enumerate(rows):
        estimate = row[metric]
        number = ",.0f" if estimate.get("count") else f"{sign}.3f"
        start, end = sorted((x(0), x(estimate["mean"])))
        bars.append(
            {
                "label": row["arm"],
                "text": format(estimate["mean"], number),
                "title": f"{row['arm']}: {estimate['mean']:{number}}, 95% between {estimate['low']:{number}} and "
                f"{estimate['high']:{number}}, n = {estimate['n']}",
                "x": start,
                "width": max(round(end - start, 1), 1),
                "y": position * ROW + 6,
                "middle": position * ROW + 13,
                "low": x(estimate["low"]),
                "high": x(estimate["high"]),
                "harm": estimate["mean"] < 0,
            }
        )
    return {
        "bars": bars,
        "label": "Uplift of each arm against none" if sign else f"{metric} of each arm",
        "origin": "none = 0" if sign else "0",
        "zero": x(0),
        "width": WIDTH,
        "height": len(rows) * ROW + 24,
        "bottom": len(rows) * ROW + 4,
    }


def draw_curve(
    points: list[dict[str, Any]], metric: str, *, axis: str = "earlier tasks learnt from", at: str = "After {} tasks"
) -> dict[str, Any]:
    """Lay out a line with its interval as a band; empty with fewer than two points."""
    if len(points) < 2:
        return {}
    edges = [point[metric][edge] for point in points for edge in ("low", "high")]
    x = Axis(low=0, high=points[-1]["x"], start=MARGIN, end=WIDTH - MARGIN).at
    y = Axis.around(edges, start=CURVE_HEIGHT - MARGIN, end=16, room=0.1, least=0.05).at
    dots = [
        {
            "x": x(point["x"]),
            "y": y(point[metric]["mean"]),
            "label": point["x"],
            "title": f"{at.format(point['x'])}: {point[metric]['mean']:.3f}, 95% between {point[metric]['low']:.3f} "
            f"and {point[metric]['high']:.3f}",
        }
        for point in points
    ]
    upper = [(x(point["x"]), y(point[metric]["high"])) for point in points]
    lower = [(x(point["x"]), y(point[metric]["low"])) for point in reversed(points)]
    shown = (min(edges), (min(edges) + max(edges)) / 2, max(edges))
    ticks = [{"y": y(value), "label": f"{value:.2f}"} for value in shown]
    return {
        "axis": axis,
        "dots": dots,
        "line": join_points((dot["x"], dot["y"]) for dot in dots),
        "band": join_points(upper + lower),
        "ticks": ticks,
        "width": WIDTH,
        "height": CURVE_HEIGHT,
        "bottom": CURVE_HEIGHT - MARGIN,
        "left": MARGIN,
        "right": WIDTH - MARGIN,
        "label_y": CURVE_HEIGHT - MARGIN + 18,
        "title_y": CURVE_HEIGHT - MARGIN + 38,
    }


def draw_sequence(looks: list[dict[str, Any]], *, planned: int) -> dict[str, Any]:
    """Lay out how an estimate and its interval narrowed with the units; empty with fewer than two looks.

    Args:
        looks: `units`, `estimate`, `low` and `high` of each look, in order.
        planned: the most units planned, where the axis ends.
    """
    if len(looks) < 2:
        return {}
    # With the last one in any case, where the line ends.
    shown = [*looks[:: max(len(looks) // MOST_POINTS, 1)], looks[-1]]
    last = max(planned, shown[-1]["units"])
    # Early intervals are so wide that the later ones would shrink to a line.
    low = min(0.0, *(max(look["low"], look["estimate"] - WIDEST) for look in shown))
    high = max(0.0, *(min(look["high"], look["estimate"] + WIDEST) for look in shown))
    x = Axis(low=0, high=last, start=MARGIN, end=WIDTH - MARGIN).at
    y = Axis.around([low, high], start=CURVE_HEIGHT - MARGIN, end=16, room=0.08, least=0.05).at

    def join(edge: str, points: list[dict[str, Any]]) -> str:
        return join_points((x(look["units"]), y(look[edge])) for look in points)

    end = shown[-1]
    return {
        "line": join("estimate", shown),
        "band": f"{join('high', shown)} {join('low', shown[::-1])}",
        "end": {
            "x": x(end["units"]),
            "y": y(end["estimate"]),
            "title": f"After {end['units']:,} runs: {100 * end['estimate']:+.1f} points, between "
            f"{100 * end['low']:+.1f} and {100 * end['high']:+.1f}",
        },
        "zero": y(0.0),
        "ticks": [{"y": y(value), "label": f"{100 * value:+.0f}"} for value in (low, high)],
        "marks": [{"x": x(last * share), "label": f"{last * share:,.0f}"} for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        "width": WIDTH,
        "height": CURVE_HEIGHT,
        "bottom": CURVE_HEIGHT - MARGIN,
        "left": MARGIN,
        "right": WIDTH - MARGIN,
        "label_y": CURVE_HEIGHT - MARGIN + 18,
        "title_y": CURVE_HEIGHT - MARGIN + 38,
    }


def find_doses(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return success by number of lessons, for arms that differ only in that number; empty for fewer than two."""
    doses = {int(match[1]): row for row in rows if (match := _DOSE.match(row["arm"]))}
    doses.update((0, row) for row in rows if row["arm"] == "none")
    return [{"x": k, "success": row["success"]} for k, row in sorted(doses.items())] if len(doses) > 2 else []


def draw_costs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Lay out the uplift of each arm over the tokens it injects; empty with fewer than two such arms.

    The arm poison-approved is left out: its scale would squeeze all other arms into one dot.
    """
    shown = [
        row for row in rows if row.get("tokens_mean") and row["uplift"].get("n") and row["arm"] != "poison-approved"
    ]
    if len(shown) < 2:
        return {}
    most = max(row["tokens_mean"] for row in shown) * 1.05
    edges = [0.0, *(row["uplift"][edge] for row in shown for edge in ("low", "high"))]
    x = Axis(low=0, high=most, start=MARGIN, end=WIDTH - MARGIN - LABELS).at
    y = Axis.around(edges, start=COST_HEIGHT - MARGIN, end=16, room=0.08, least=0.05).at
    dots: list[dict[str, Any]] = []
    for row in sorted(shown, key=lambda shown_row: -shown_row["uplift"]["mean"]):
        middle = y(row["uplift"]["mean"])
        # Labels go down one below the other, so that close dots keep theirs apart.
        label_y = max(middle, dots[-1]["label_y"] + LABEL_ROW) if dots else middle
        dots.append(
            {
                "x": x(row["tokens_mean"]),
                "y": middle,
                "low": y(row["uplift"]["low"]),
                "high": y(row["uplift"]["high"]),
                "label": row["arm"],
                "label_y": label_y,
                "harm": row["uplift"]["mean"] < 0,
                "title": f"{row['arm']}: {row['uplift']['mean']:+.3f} for {row['tokens_mean']:.0f} tokens",
            }
        )
    ticks = [{"x": x(most * share), "label": f"{most * share:,.0f}"} for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    height = max(COST_HEIGHT, dots[-1]["label_y"] + MARGIN)
    edges_shown = [edge for edge in (min(edges), max(edges)) if abs(y(edge) - y(0)) > 12]
    return {
        "dots": dots,
        "ticks": ticks,
        "zero": y(0),
        "edges": [{"y": y(edge), "label": f"{edge:+.2f}"} for edge in edges_shown],
        "width": WIDTH,
        "height": height,
        "left": MARGIN,
        "right": WIDTH - MARGIN - LABELS,
        "labels": WIDTH - LABELS - MARGIN + 14,
        "bottom": COST_HEIGHT - MARGIN,
        "label_y": COST_HEIGHT - MARGIN + 18,
        "title_y": COST_HEIGHT - MARGIN + 36,
    }
