"""How much a chaos test does, its seed, and where its figures go.

`CHAOS_PROFILE` is `quick`, `full` (25 minutes) or `soak` (the large numbers), `CHAOS_SEED` repeats a run,
`CHAOS_REPORT` is the file that gets one JSON line for each fault and `CHAOS_HISTORY` the folder that gets what was
attempted. `python -m tests.chaos.run` sets them.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

PROFILE = os.environ.get("CHAOS_PROFILE", "quick")
SOAK = PROFILE == "soak"
FULL = PROFILE == "full" or SOAK  # more than the suite does
SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(2**32))
STARTED = time.monotonic()
Number = TypeVar("Number", int, float)


def pick(quick: Number, soak: Number, *, full: Number | None = None) -> Number:
    """Return how often to do something in this profile; the full one takes the large number unless it has its own."""
    if SOAK or (FULL and full is None):
        return soak
    return full if FULL and full is not None else quick


def make_random(name: str) -> random.Random:
    """Return this test's own source of chance: the same for the same seed, whatever else runs."""
    return random.Random(f"{SEED}:{name}")


def report(fault: str, **counts: Any) -> None:
    """Print one JSON line of what a fault test did and found."""
    line = json.dumps({"fault": fault, "profile": PROFILE, "seed": SEED, **counts})
    print(line)
    if path := os.environ.get("CHAOS_REPORT"):
        with Path(path).open("a") as file:
            file.write(line + "\n")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of what was attempted (after Jepsen's set checker)."""

    attempted: int
    acknowledged: int
    present: int
    lost: list[str]
    duplicated: list[str]
    unexpected: list[str]

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected)

    def counts(self) -> dict[str, int]:
        return {
            "attempted": self.attempted,
            "acknowledged": self.acknowledged,
            "present": self.present,
            "lost": len(self.lost),
            "duplicated": len(self.duplicated),
            "unexpected": len(self.unexpected),
        }


@dataclass(kw_only=True)
class History:
    """What clients attempted and what they were told; judged against what is there in the end."""

    name: str
    attempted: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)

    def attempt(self, key: str) -> None:
        self.attempted.add(key)
        self._write("attempt", key)

    def acknowledge(self, key: str) -> None:
        self.acknowledged.add(key)
        self._write("acknowledge", key)

    def has_more_than(self, acknowledged: int) -> bool:
        return len(self.acknowledged) > acknowledged

    def judge(self, present: Iterable[str]) -> Verdict:
        """Compare with the names of the effects that are there, each as often as it is there."""
        found = Counter(present)
        return Verdict(
            attempted=len(self.attempted),
            acknowledged=len(self.acknowledged),
            present=sum(found.values()),
            lost=sorted(self.acknowledged - found.keys()),
            duplicated=sorted(key for key, times in found.items() if times > 1),
            unexpected=sorted(found.keys() - self.attempted),
        )

    def _write(self, what: str, key: str) -> None:
        if folder := os.environ.get("CHAOS_HISTORY"):
            line = json.dumps({"at": round(time.monotonic() - STARTED, 4), "what": what, "key": key})
            with (Path(folder) / f"{self.name}.jsonl").open("a") as file:
                file.write(line + "\n")
