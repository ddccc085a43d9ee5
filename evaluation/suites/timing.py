"""Durations in milliseconds for the report."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.suites.vector_cache import CachedVectors
from memory.embeddings.registry import get_embedder
from memory.retrieval.context import build_context

MAX_TIMED_TEXTS = 50  # texts whose embedding is timed


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile, to a tenth of a millisecond."""
    if not milliseconds:
        return {}
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": round(float(p50), 1), "p95": round(float(p95), 1), "n": len(milliseconds)}


def milliseconds_since(started: float) -> float:
    """Return the time since a reading of `time.perf_counter`."""
    return (time.perf_counter() - started) * 1000


def time_block(items: Sequence[dict[str, Any]], *, budget_tokens: int) -> float:
    """Return how long it takes to write the context block of these lessons."""
    injected = [item for item in items if item["injected"]]
    started = time.perf_counter()
    build_context(injected, budget_tokens=budget_tokens)
    return milliseconds_since(started)


def time_embedding(texts: Sequence[str]) -> list[float]:
    """Return how long the first of these texts take to embed, bypassing the cache."""
    embedder = get_embedder()
    if embedder is None:
        return []
    # The cache would make every text after the first run free.
    embed = embedder.embed.uncached if isinstance(embedder.embed, CachedVectors) else embedder.embed
    spent = []
    for text in texts[:MAX_TIMED_TEXTS]:
        started = time.perf_counter()
        embed([text])
        spent.append(milliseconds_since(started))
    return spent
