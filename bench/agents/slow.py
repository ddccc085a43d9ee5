"""Many runs at once on a model that takes long, and one on a model that does not."""

import time
from dataclasses import dataclass
from typing import Any

from bench.agents.loopback import Loopback, Said
from bench.agents.product import Product


@dataclass(frozen=True, kw_only=True, slots=True)
class Sleeper:
    """Answers after some seconds."""

    seconds: float

    def answer(self, request: dict[str, Any]) -> Said:
        time.sleep(self.seconds)
        return Said(text="Here you are.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Wall time in seconds until the last slow run ended, and until the fast run began and ended."""

    runs: int
    failed: int
    all_ended: float
    fast_began: float
    fast_ended: float


def run_slow(loopback: Loopback, product: Product, *, runs: int, seconds: float) -> Figures:
    """Start slow runs all at once, and a fast one halfway through; wait for all of them."""
    loopback.policies |= {"slow": Sleeper(seconds=seconds), "fast": Sleeper(seconds=0.0)}
    agents = {
        name: product.ask("POST", "/agents", {"name": name, "model": name, "system": "You help."})["id"]
        for name in ("slow", "fast")
    }
    began = time.monotonic()
    started = [product.ask("POST", f"/agents/{agents['slow']}/runs", {"input": f"Help {n}."}) for n in range(runs)]
    # Halfway through, when all slow runs wait for the model.
    time.sleep(max(0.0, began + seconds / 2 - time.monotonic()))
    fast = _time_fast(product, agents["fast"])
    ended = [product.wait(run) for run in started]
    return Figures(
        runs=runs,
        failed=sum(run["status"] != "succeeded" for run in ended),
        all_ended=time.monotonic() - began,
        fast_began=fast[0],
        fast_ended=fast[1],
    )


def _time_fast(product: Product, agent: str) -> tuple[float, float]:
    asked_at = time.monotonic()
    run = product.ask("POST", f"/agents/{agent}/runs", {"input": "Help at once."})
    began = None
    while run["status"] in ("queued", "running"):
        run = product.ask("GET", f"/runs/{run['id']}")
        if began is None and run["status"] != "queued":
            began = time.monotonic() - asked_at
        time.sleep(0.01)
    ended = time.monotonic() - asked_at
    return began or ended, ended


def report(figures: Figures, *, seconds: float) -> str:
    return (
        f"{figures.runs} runs at once on a model that takes {seconds:g} s: all ended after {figures.all_ended:.1f} s, "
        f"{figures.failed} failed. A run on a fast model, started in their midst, began after "
        f"{figures.fast_began:.2f} s and ended after {figures.fast_ended:.2f} s."
    )
