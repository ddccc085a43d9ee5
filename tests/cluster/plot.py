"""Draw what web hosts add, from what the measure wrote with --json: `python -m tests.cluster.plot FIGURES DRAWING`."""

import json
import sys
from pathlib import Path
from typing import Any

from bench.plots import Bar, draw_bars

SERIES = {"requests_per_second": "a second", "requests_per_cpu_second": "a CPU-second"}
AIM = 0.9  # of what one host answers in a CPU-second


def make_bars(web: list[dict[str, Any]]) -> list[Bar]:
    """Return bars relative to the largest figure of each series, with the aim as a line."""
    bars = []
    for row in web:
        for name, title in SERIES.items():
            most = max(other[name] for other in web)
            value = row[name] / most
            aim = AIM * web[0][name] / most if name == "requests_per_cpu_second" else None
            group = f"{row['hosts']} web host{'s' if row['hosts'] > 1 else ''}"
            bars.append(Bar(group=group, series=title, value=value, low=value, high=value, baseline=aim))
    return bars


if __name__ == "__main__":
    figures = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    draw_bars(make_bars(figures["web"]), title="Requests, relative to the largest figure", path=Path(sys.argv[2]))
