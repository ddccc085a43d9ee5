"""Spans for OpenTelemetry, or nothing if tracing is off.

The OpenTelemetry packages are optional: `erl_site.monitoring.tracing` sets the tracer if ERL_OTEL_ENDPOINT is set.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Tracer(Protocol):
    """Opens spans as children of a W3C trace context or of the current span."""

    def span(self, name: str, *, parent: str, attributes: dict[str, Any]) -> Any: ...

    def traceparent(self) -> str: ...


_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Turn tracing on, or off with None."""
    global _tracer
    _tracer = tracer


def current_traceparent() -> str:
    """Return the trace context of the current span, or ""."""
    return _tracer.traceparent() if _tracer is not None else ""


@contextmanager
def span(name: str, *, parent: str = "", **attributes: Any) -> Iterator[None]:
    """Trace a piece of work. `parent` is the trace context to continue, for example the one stored with a job."""
    if _tracer is None:
        yield
        return
    with _tracer.span(name, parent=parent, attributes=attributes):
        yield
