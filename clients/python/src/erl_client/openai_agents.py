"""Lessons and records for the OpenAI Agents SDK.

tracing = ERLTracing(erl, family="airline")
add_trace_processor(tracing)
result = await Runner.run(agent, task, run_config=RunConfig(call_model_input_filter=tracing.add_lessons))
"""

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents import TracingProcessor, get_current_span
from agents.run import CallModelData, ModelInputData

from erl_client.client import ERL, AsyncERL
from erl_client.plain import as_plain
from erl_client.runs import current_run
from erl_client.traced import TracedRuns
from erl_client.transcripts.tracers import spans_of_agents_sdk

log = logging.getLogger("erl_client")


class ERLTracing(TracingProcessor):
    """Records what the runner does as runs, also agents that are tools of others, and adds lessons to instructions.

    In the block of an open run the agent is part of that run, which may also say how it ended.
    """

    def __init__(self, erl: ERL | AsyncERL, *, family: str = "", agent: str = "") -> None:
        self._erl = erl
        self._runs = TracedRuns(erl, family=family, agent=agent)
        self._handled: dict[str, BaseException] = {}  # exceptions that the code around a span had caught before

    async def add_lessons(self, data: CallModelData[Any]) -> ModelInputData:
        """Add the lessons of the run to the instructions of each call, as the run's `call_model_input_filter`."""
        span, run = get_current_span(), current_run()
        if run is None and span is not None:
            run = await self._runs.run_of(span.span_id, _task(data.model_data.input))
        if run is None or not run.context:
            return data.model_data
        said = data.model_data.instructions
        return replace(data.model_data, instructions=f"{said}\n\n{run.context}" if said else run.context)

    def on_trace_start(self, trace: Any) -> None:
        """Wait for the first span: it says what is done."""

    def on_trace_end(self, trace: Any) -> None:
        """Do nothing: the run ended with its outermost span."""

    def on_span_start(self, span: Any) -> None:
        if handled := sys.exc_info()[1]:
            self._handled[span.span_id] = handled
        self._runs.start(span.span_id, span.parent_id or "")

    def on_span_end(self, span: Any) -> None:
        error = sys.exc_info()[1]  # spans do not say which exception ended them
        if error is self._handled.pop(span.span_id, None):
            error = None
        try:
            self._runs.end(spans_of_agents_sdk([_export(span)])[0], error)
        except Exception:
            log.debug("A span was not captured.", exc_info=True)

    def shutdown(self) -> None:
        self.force_flush()

    def force_flush(self) -> None:
        """Do nothing: runs are on disk as soon as they end."""


def _export(span: Any) -> dict[str, Any]:
    """Return a span as the SDK exports it, with what the model was given and answered, which it leaves out."""
    exported = span.export() or {}
    data = span.span_data
    known = {"input": getattr(data, "input", None), "response": getattr(data, "response", None)}
    about = {**exported.get("span_data", {}), **{name: value for name, value in known.items() if value is not None}}
    return {**as_plain(exported), "span_data": as_plain(about)}


def _task(messages: Any) -> str:
    for message in messages:
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text"))
    return ""
