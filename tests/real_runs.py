"""Real agent runs for the tests: the excerpts in tests/data, and the full sets where they lie beside the checkout."""

import json
from pathlib import Path
from typing import Any

EXCERPTS = Path(__file__).parent / "data"
TAU = EXCERPTS / "tau_airline" / "trajectories.jsonl"
TAU_NATIVE = EXCERPTS / "tau_airline" / "native_sample.json"
WEBSHOP = EXCERPTS / "webshop" / "trajectories.jsonl"

FULL_SETS = Path(__file__).parents[2] / "shared" / "data"


def load_runs(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def load_all_runs() -> list[dict[str, Any]]:
    """Every converted run at hand: 52 from the excerpts, 350 when the full sets are there."""
    full = sorted(FULL_SETS.glob("*_trajectories/trajectories.jsonl"))
    return [run for path in full or [TAU, WEBSHOP] for run in load_runs(path)]


def load_native_runs() -> list[dict[str, Any]]:
    """Every run at hand that is still in chat form."""
    full = FULL_SETS / "tau_airline_trajectories" / "native_sample.json"
    runs: list[dict[str, Any]] = json.loads((full if full.exists() else TAU_NATIVE).read_text())
    return runs
