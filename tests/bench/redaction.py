"""Measure redaction: `python -m tests.bench.redaction [FILE.jsonl …]`.

Prints the time for one megabyte of real trajectories and for one megabyte of a single text, recall on synthetic
secrets, and how many of the given runs lose anything but e-mail addresses. Without files it reads the tests' sample.
"""

import json
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from django.conf import settings

if not settings.configured:
    settings.configure(SECRET_KEY=os.urandom(16).hex())

from memory.redaction import redact, redact_text
from tests.memory.synthetic_secrets import plant_secrets

_SAMPLES = sorted((Path(__file__).resolve().parent.parent / "data").glob("*/trajectories.jsonl"))
_ROUNDS = 15


def milliseconds_per_megabyte(value: Any) -> dict[str, float]:
    """Redact `value` several times; return the least and the median time for a megabyte of its JSON."""
    megabytes = len(json.dumps(value, ensure_ascii=False).encode()) / 1_000_000
    times = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        redact(value)
        times.append((perf_counter() - start) * 1000 / megabytes)
    return {"least": round(min(times), 1), "median": round(median(times), 1)}


def main(paths: list[Path]) -> None:
    runs = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    repeated = runs * (1 + 1_000_000 // len(json.dumps(runs)))
    one_megabyte, size = [], 0
    for run in repeated:
        one_megabyte.append(run)
        size += len(json.dumps(run))
        if size >= 1_000_000:
            break
    planted = plant_secrets(seed=7, per_kind=50)
    missed = sum(p.needle[-8:] in redact_text(p.text) for p in planted)
    wrong = [run["id"] for run in runs if set(redact(run).counts) - {"email"}]
    print(
        json.dumps(
            {
                "trajectories_ms_per_mb": milliseconds_per_megabyte(one_megabyte),
                "one_text_ms_per_mb": milliseconds_per_megabyte(json.dumps(one_megabyte)),
                "secrets": len(planted),
                "recall": round(1 - missed / len(planted), 4),
                "runs": len(runs),
                "runs_with_false_positives": len(wrong),
            }
        )
    )


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or _SAMPLES)
