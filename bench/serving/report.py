"""The figures as a table, and latency against size as a drawing."""

from collections.abc import Sequence
from math import log10
from pathlib import Path
from typing import Any

HEAD = ("call", "load", "CPU ms", "web + pg", "p50", "p95", "p99", "req/s", "503", "CPU/F", "p50/F", "CPU/A", "p50/A")
WIDTHS = (24, 9, 7, 13, 7, 7, 7, 7, 5, 6, 6, 6, 6)
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 320, 56, 40
COLOURS = ("#1b6ca8", "#c2571a", "#3f7d20", "#7a3e9d", "#555555", "#a8324a", "#0f9d94", "#b8960c")


def print_report(result: dict[str, Any]) -> None:
    """Print one size: F first, then every call against F and against the anchor under the same load.

    A call of which requests were turned away has no ratios: its CPU is partly that of refusals.
    """
    floor, rows = result["floor"], result["rows"]
    load = " ".join(f"{value:.1f}" for value in result["load_average"])
    print(f"\n{result['heuristics']:,} approved lessons, {result['asked']:,} of them in the project asked; load {load}")
    print(f"Searched {result['searched']}.")
    print("  ".join(text.ljust(width) for text, width in zip(HEAD, WIDTHS, strict=True)))
    times = [f"{floor[name]:.2f}" for name in ("p50_ms", "p95_ms", "p99_ms")]
    _print_line("F", "1 caller", f"{floor['cpu_ms']:.2f}", "", *times, "", "", "1", "1", "", "")
    for row in rows:
        anchor = find_anchor(rows, row)
        ratios = [_ratio(row, floor, name) for name in ("cpu_ms", "p50_ms")]
        ratios += [_ratio(row, anchor, name) if anchor else "" for name in ("cpu_ms", "p50_ms")]
        _print_line(
            row["call"],
            row["mode"],
            f"{row['cpu_ms']:.2f}",
            f"{row['web_ms']:.2f} + {row['postgres_ms']:.2f}",
            *(f"{row[name]:.2f}" for name in ("p50_ms", "p95_ms", "p99_ms")),
            f"{row['per_second']:.0f}",
            f"{row['refused'] / (row['requests'] + row['refused']):.0%}" if row["refused"] else "",
            *ratios,
        )
    rss, pss = result["worker_rss_mb"], result["worker_pss_mb"]
    print(f"Largest web process: {rss['product']} MB RSS, {pss['product']} MB PSS (anchor {rss['anchor']} MB RSS).")


def _ratio(row: dict[str, Any], other: dict[str, Any], name: str) -> str:
    return "" if row["refused"] or other.get("refused") else f"{row[name] / other[name]:.2f}"


def find_anchor(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the anchor's row under the same load, cached or not as the call is."""
    kind = row["call"].split()[-1]
    return next((a for a in rows if a["call"] == f"A {kind}" and a["mode"] == row["mode"]), None)


def draw_plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the p50 with one client against the number of lessons, both logarithmic, as SVG."""
    series: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        series.setdefault("F", []).append((result["heuristics"], result["floor"]["p50_ms"]))
        for row in result["rows"]:
            if row["mode"] == "1 client":
                series.setdefault(row["call"], []).append((result["heuristics"], row["p50_ms"]))
    points = [point for line in series.values() for point in line]
    sizes = sorted({size for size, _ in points})
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if _covers(points, tick)]
    low, high = log10(min(ticks)), log10(max(ticks))
    first, last = log10(sizes[0]), log10(sizes[-1])

    def x(size: float) -> float:
        share = (log10(size) - first) / (last - first) if last > first else 0.5
        return LEFT + share * (WIDTH - LEFT - 190)

    def y(milliseconds: float) -> float:
        return HEIGHT - BOTTOM - (log10(milliseconds) - low) / (high - low) * (HEIGHT - BOTTOM - 20)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        "<style>text { font: 11px sans-serif }</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in ticks:
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - 190}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g} ms</text>')
    parts += [f'<text x="{x(size):.1f}" y="{HEIGHT - 20}" text-anchor="middle">{size:,}</text>' for size in sizes]
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 5}">approved lessons; p50, one client</text>')
    for index, (name, line) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        corners = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in line)
        parts.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for s, v in line]
        parts.append(f'<text x="{WIDTH - 180}" y="{30 + 18 * index}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _covers(points: Sequence[tuple[float, float]], tick: float) -> bool:
    values = [value for _, value in points]
    return min(values) / 2.5 < tick < max(values) * 2.5


def _print_line(*texts: str) -> None:
    print("  ".join(text.ljust(width) for text, width in zip(texts, WIDTHS, strict=True)), flush=True)
