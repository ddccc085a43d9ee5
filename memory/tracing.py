"""Spans for OpenTelemetry, where it is switched on; nothing at all where it is not.

The product works without the packages: `erl_site.monitoring.tracing` sets the tracer when ERL_OTEL_ENDPOINT is set.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Tracer(Protocol):
    """Opens a span as a child of a W3C trace context, or of the span that is open."""

    def span(self, name: str, *, parent: str, attributes: dict[str, Any]) -> Any: ...

    def traceparent(self) -> str: ...


_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Switch tracing on, or off with None."""
    global _tracer
    _tracer = tracer


def current_traceparent() -> str:
    """Return the trace context of the span that is open, or ""."""
    return _tracer.traceparent() if _tracer is not None else ""


@contextmanager
def span(name: str, *, parent: str = "", **attributes: Any) -> Iterator[None]:
    """Time a piece of work. `parent` is the trace context it goes on, for example the one kept on a job's row."""
    if _tracer is None:
        yield
        return
    with _tracer.span(name, parent=parent, attributes=attributes):
        yield
