"""POST /otlp/v1/traces: spans become runs."""

import gzip
import json

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from tests.factories import make_api_key
from tests.real_runs import EXCERPTS

pytestmark = pytest.mark.django_db
URL = "/otlp/v1/traces"
PROTOBUF = "application/x-protobuf"
SAMPLES = EXCERPTS / "transcripts"
LINES = (SAMPLES / "otlp_collector.jsonl").read_text().splitlines()


def test_protobuf_becomes_a_run(api_client):
    answer = api_client.post(URL, (SAMPLES / "otlp_genai.pb").read_bytes(), content_type=PROTOBUF)

    run = Trajectory.objects.get()
    assert (answer.status_code, answer["Content-Type"], answer.content) == (200, PROTOBUF, b"")
    assert (run.task, len(run.steps), run.agent, run.tokens, run.is_open, run.spans) == (
        "Cancel my reservation EHGLP3.",
        4,
        "airline",
        510,
        False,
        [],
    )
    assert Reflection.objects.count() == 1


def test_spans_that_come_one_by_one_are_one_run_finished_by_its_root(api_client):
    *inner, root = [*LINES[1:], LINES[0]]

    for line in inner:
        api_client.post(URL, json.loads(line))
    waiting = Trajectory.objects.get()
    assert (waiting.is_open, len(waiting.steps), Reflection.objects.count()) == (True, 4, 0)
    answer = api_client.post(URL, json.loads(root))

    run = Trajectory.objects.get()
    assert (answer.json(), run.is_open, run.agent, len(run.steps)) == ({}, False, "airline", 4)


def test_sub_agent_is_a_run_with_its_caller_as_parent(api_client):
    api_client.post(URL, json.loads((SAMPLES / "otlp_subagent.json").read_text()))

    parent, child = Trajectory.objects.order_by("created_at", "id")
    assert (parent.agent, child.agent, child.parent) == ("desk", "policy", parent)


def test_gzip_is_unpacked(api_client):
    body = gzip.compress((SAMPLES / "otlp_genai.pb").read_bytes())

    api_client.post(URL, body, content_type=PROTOBUF, headers={"Content-Encoding": "gzip"})

    assert Trajectory.objects.count() == 1


def test_spans_of_a_finished_run_are_rejected_with_the_reason(api_client):
    body = json.loads((SAMPLES / "otlp_genai.json").read_text())
    api_client.post(URL, body)

    partial = api_client.post(URL, body).json()["partialSuccess"]

    assert partial["rejectedSpans"] == "6"
    assert partial["errorMessage"].endswith("its root span arrived earlier, so its run is finished.")
    assert Trajectory.objects.count() == 1


def test_trace_without_an_agent_is_no_run(api_client):
    span = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "GET /", "kind": 2}

    answer = api_client.post(URL, {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})

    assert (answer.json(), Trajectory.objects.count()) == ({}, 0)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"\x0a\x7fabc", PROTOBUF, 400),
        (b"[]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"x", "text/plain", 415),
    ],
)
def test_body_that_is_no_trace_request_is_refused(api_client, body, kind, status):
    assert api_client.post(URL, body, content_type=kind).status_code == status


def test_without_a_key_is_401(client):
    assert client.post(URL, b"", content_type=PROTOBUF).status_code == 401


@pytest.mark.django_db(transaction=True)
def test_real_exporter_is_understood(live_server):
    headers = {"Authorization": f"Bearer {make_api_key().token}"}
    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"{live_server.url}{URL}", headers=headers)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Say hello"}]}])
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}])
    names = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "greeter"}

    with tracer.start_as_current_span("invoke_agent greeter", attributes=names):
        chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": said}
        with tracer.start_as_current_span("chat", attributes=chat):
            pass
        assert provider.force_flush()
    provider.shutdown()

    run = Trajectory.objects.get()
    assert (run.task, run.agent, run.is_open) == ("Say hello", "greeter", False)
