"""How long things took."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory.retrieval.context import build_context

EMBEDDED = 50  # texts whose embedding is timed, at most


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile, to a tenth of a millisecond."""
    if not milliseconds:
        return {}
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": round(float(p50), 1), "p95": round(float(p95), 1), "n": len(milliseconds)}


def time_block(items: Sequence[dict[str, Any]], *, budget_tokens: int) -> float:
    """Return in milliseconds how long writing the block of these lessons takes, by itself."""
    injected = [item for item in items if item["injected"]]
    started = time.perf_counter()
    build_context(injected, budget_tokens=budget_tokens)
    return (time.perf_counter() - started) * 1000
