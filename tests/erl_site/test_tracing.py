"""One trace from the request through the job to the model, and none where it is switched off."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rest_framework.test import APIClient

from erl_site.monitoring.tracing import OpenTelemetryTracer, start_tracing
from memory.tracing import current_traceparent, set_tracer, span
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection
from tests.factories import STEPS, bearer, make_api_key
from tests.reflection.scripted import make_completion
from tests.scripted_answers import lesson

pytestmark = pytest.mark.django_db

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    set_tracer(OpenTelemetryTracer(provider))
    yield exporter
    set_tracer(None)


def test_request_job_and_model_call_are_one_trace(settings: Any, spans: InMemorySpanExporter) -> None:
    settings.ERL_REFLECTOR, settings.ERL_LLM_PROVIDER, settings.ERL_EMBEDDER = "llm", "openai", "none"
    settings.MIDDLEWARE = [
        settings.MIDDLEWARE[0],
        "erl_site.monitoring.tracing.TracingMiddleware",
        *settings.MIDDLEWARE[1:],
    ]
    client = APIClient(headers=bearer(make_api_key().token) | {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})

    answer = client.post(
        "/api/v1/trajectories", {"task": "Cancel", "steps": STEPS, "outcome": "failure"}, format="json"
    )
    spans_of_request = {one.name for one in spans.get_finished_spans()}
    run_reflection(owner="test", ask_model=lambda step, request: make_completion(text=json.dumps(lesson())))

    made = {one.name: one for one in spans.get_finished_spans()}
    assert answer.status_code == 201
    assert spans_of_request == {"HTTP POST"}
    assert {format(one.context.trace_id, "032x") for one in made.values()} == {TRACE}
    assert made["reflection"].parent is not None
    assert made["reflection"].parent.span_id == made["HTTP POST"].context.span_id
    assert made["model call"].parent is not None
    assert made["model call"].parent.span_id == made["reflection"].context.span_id
    assert Reflection.objects.get().traceparent.split("-")[1] == TRACE


def test_without_an_endpoint_there_is_nothing() -> None:
    with override_settings(ERL_OTEL_ENDPOINT=""), span("work"):
        assert start_tracing() is False
        assert current_traceparent() == ""
