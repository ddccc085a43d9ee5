"""OpenTelemetry: request → job → model call, sent to a collector over OTLP (the dependency group `tracing`)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from memory.tracing import current_traceparent, set_tracer, span

log = structlog.get_logger(__name__)


class OpenTelemetryTracer:
    """Spans of one tracer provider."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("erl")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, *, parent: str, attributes: dict[str, Any]) -> Iterator[None]:
        context = self._propagator.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(name, context=context, attributes=attributes):
            yield

    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent", "")


class TracingMiddleware:
    """Opens a span for every request, as a child of the caller's, and binds it for the jobs that the request queues."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        parent = request.headers.get("traceparent", "")
        about = {"http.request.method": request.method or "", "url.path": request.path_info}
        with span(f"HTTP {request.method}", parent=parent, **about):
            if traceparent := current_traceparent():
                structlog.contextvars.bind_contextvars(traceparent=traceparent)
            return self.get_response(request)


def start_tracing() -> bool:
    """Send spans to ERL_OTEL_ENDPOINT; return whether they are sent. A missing package is logged and is no failure."""
    if not settings.ERL_OTEL_ENDPOINT:
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.error("tracing_not_installed", missing=error.name, hint="uv sync --group tracing")
        return False
    provider = TracerProvider(resource=Resource.create({"service.name": "erl"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.ERL_OTEL_ENDPOINT)))
    set_tracer(OpenTelemetryTracer(provider))
    return True
