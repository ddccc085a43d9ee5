"""Draw latency against size from the figures of several runs.

uv run python -m bench.serving.plot FIGURES.json … DRAWING.svg
"""

import json
import sys
from pathlib import Path

from bench.serving.report import draw_plot


def main() -> None:
    *figures, drawing = map(Path, sys.argv[1:])
    results = [result for path in figures for result in json.loads(path.read_text())]
    draw_plot(sorted(results, key=lambda result: int(result["heuristics"])), drawing)


if __name__ == "__main__":
    main()
