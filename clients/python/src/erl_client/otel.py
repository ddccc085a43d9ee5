"""Runs from the spans of any tracer that follows OpenTelemetry's GenAI conventions or OpenInference.

provider.add_span_processor(ERLSpanProcessor(erl, family="airline"))
"""

import json
import logging
from typing import Any

from opentelemetry.sdk.trace import SpanProcessor

from erl_client.client import ERL, AsyncERL
from erl_client.traced import TracedRuns
from erl_client.transcripts.opentelemetry import spans_of_console

log = logging.getLogger("erl_client")


class ERLSpanProcessor(SpanProcessor):
    """Records each trace with model calls, tool calls or agents as a run when its outermost span here ends.

    In the block of an open run the spans are part of that run, which has lessons and may say how it ended.
    """

    def __init__(self, erl: ERL | AsyncERL, *, family: str = "", agent: str = "") -> None:
        self._runs = TracedRuns(erl, family=family, agent=agent)

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._runs.start(_hex(span.context), _hex(span.parent))

    def on_end(self, span: Any) -> None:
        try:
            about = {**json.loads(span.to_json()), "dropped_attributes": span.dropped_attributes}
            self._runs.end(spans_of_console([about])[0])
        except Exception:
            log.debug("A span was not captured.", exc_info=True)


def _hex(context: Any) -> str:
    return f"{context.span_id:016x}" if context else ""
