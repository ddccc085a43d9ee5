"""What the programs here share: an agent of an airline whose spans go to ERL, inside the block of a run."""

import os
from collections.abc import Callable
from typing import Any

from erl_client import ERL
from erl_client.otel import ERLSpanProcessor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

TASK = "Cancel reservation EHGLP3."
MODEL = "gpt-4o-mini"
PROVIDER = {"api_key": "k", "base_url": os.environ["OPENAI_BASE_URL"]}

erl = ERL()
traces = TracerProvider()
traces.add_span_processor(ERLSpanProcessor(erl, family="airline"))
trace.set_tracer_provider(traces)


def get_reservation(id: str) -> str:
    """Read a reservation.

    Args:
        id: The code of the reservation.
    """
    return "basic economy"


def record(ask: Callable[[], Any]) -> None:
    """Let an agent do the task, and say how that ended."""
    with erl.run(TASK, family="airline") as run:
        answer = str(ask())
        run.success(source="test") if "cannot" in answer else run.failure(source="test")
    erl.close()
