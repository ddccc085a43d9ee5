"""How long things took."""

from collections.abc import Sequence

import numpy as np


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile, to a tenth of a millisecond."""
    if not milliseconds:
        return {}
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": round(float(p50), 1), "p95": round(float(p95), 1), "n": len(milliseconds)}
