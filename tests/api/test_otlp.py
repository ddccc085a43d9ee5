"""POST /otlp/v1/traces and /otlp/v1/logs: spans and their log events become runs."""

import gzip
import json

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from memory.api.models import IdempotencyRecord
from memory.limits import MAX_CALLED_RUNS, MAX_REQUEST_TRACES, MAX_TRACE_SPANS
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from memory.transcripts.traces import Span, _agents_above
from memory.trust.erasure import erase_trajectory
from reflection.reflectors.models import Reflection
from tests.api.conftest import make_client
from tests.factories import make_api_key, make_trajectory
from tests.real_runs import EXCERPTS

pytestmark = pytest.mark.django_db
URL = "/otlp/v1/traces"
PROTOBUF = "application/x-protobuf"
SAMPLES = EXCERPTS / "transcripts"
CONVERSATION = json.dumps([{"role": "user", "content": "Say hello"}, {"role": "assistant", "content": "Hello"}])
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


def span(trace, id, *, parent="", kind="chat", **attributes):
    said = {"gen_ai.operation.name": kind, "gen_ai.input.messages": CONVERSATION, **attributes}
    pairs = [{"key": name, "value": {"stringValue": value}} for name, value in said.items()]
    return {"traceId": trace, "spanId": id, "parentSpanId": parent, "name": "x", "attributes": pairs}


def test_lessons_in_a_message_are_no_part_of_the_task_of_a_trace(api_client):
    block = "<lessons>\nLessons from earlier runs, each approved.\n1. When a: b\n</lessons>"
    asked = json.dumps(f"{block}\nCancel my flight.")

    api_client.post(URL, request(span("t1", "b", parent="a")))
    api_client.post(
        URL, request(span("t1", "a", kind="invoke_agent", **{"gen_ai.input.messages": "", "input.value": asked}))
    )

    assert "Lessons from" not in Trajectory.objects.get().task


def request(*spans, resource=None):
    return {"resourceSpans": [{"resource": resource or {}, "scopeSpans": [{"spans": list(spans)}]}]}


def reject(client, body):
    """Send a request of which spans are rejected, and return why."""
    return client.post(URL, body).json()["partialSuccess"]["errorMessage"]


def test_spans_change_no_open_run_that_is_no_trace(api_client, project, api_key):
    run = make_trajectory(project=project, is_open=True, external_id="r-1", client=api_key.api_key.client)

    reason = reject(api_client, request(span("r-1", "a", parent="b")))

    told = (run.task, run.steps)
    run.refresh_from_db()
    assert reason == "trace r-1: an open run that is no trace has this external id."
    assert (run.task, run.steps) == told


@pytest.mark.parametrize("trace", ["", None, 5])
def test_spans_without_a_trace_id_belong_to_no_run(api_client, project, api_key, trace):
    make_trajectory(project=project, is_open=True, client=api_key.api_key.client)

    reason = reject(api_client, request(span(trace, "a", parent="b")))

    assert reason == "What has no trace id cannot be part of a run."
    assert Trajectory.objects.get().spans == []


def test_another_client_adds_nothing_to_a_trace(api_client, project):
    api_client.post(URL, request(span("t", "a", parent="b")))
    another = make_client(make_api_key(project=project, client="another").token)

    reason = reject(another, request(span("t", "c", parent="b")))

    assert reason.startswith("trace t: Another client opened this run")
    assert len(Trajectory.objects.get().spans) == 1


def test_spans_that_come_again_are_kept_once(api_client):
    for _ in range(2):
        api_client.post(URL, request(span("t", "a", parent="b")))

    assert len(Trajectory.objects.get().spans) == 1


def test_erasure_leaves_nothing_of_a_request_under_a_key(api_client, settings):
    settings.ERL_IDEMPOTENCY_REQUIRED = True  # of exporters none is asked for
    api_client.post(URL, request(span("t", "a")), headers={"Idempotency-Key": "once"})
    unkeyed = api_client.post(URL, request(span("u", "a")))

    for run in Trajectory.objects.all():
        erase_trajectory(run, by=Actor(label="user:ana"))

    assert unkeyed.status_code == 200
    assert not IdempotencyRecord.objects.exists()


def test_trace_does_not_grow_without_end(api_client, project, api_key):
    spans = [request(span("t", f"a{n}", parent="b"))["resourceSpans"][0] for n in range(MAX_TRACE_SPANS)]
    make_trajectory(project=project, is_open=True, external_id="t", spans=spans, client=api_key.api_key.client)

    reason = reject(api_client, request(span("t", "c", parent="b")))

    assert reason.startswith("trace t: at most 5,000 spans")
    assert len(Trajectory.objects.get().spans) == MAX_TRACE_SPANS


def test_resource_is_not_kept_with_each_of_its_spans(api_client):
    attributes = [{"key": name, "value": {"stringValue": "x" * 10_000}} for name in ("host.name", "service.name")]

    api_client.post(URL, request(span("t", "a", parent="b"), resource={"attributes": attributes}))

    assert "xxx" not in json.dumps(Trajectory.objects.get().spans)


def test_request_records_so_many_traces_and_says_which_are_left(api_client):
    traces = [f"{number:032x}" for number in range(MAX_REQUEST_TRACES + 1)]

    reason = reject(api_client, request(*(span(trace, "a") for trace in traces)))

    assert reason == f"trace {traces[-1]}: send at most 100 traces in a request; set a smaller batch size."
    assert Trajectory.objects.count() == MAX_REQUEST_TRACES


def test_trace_records_so_many_sub_agents(api_client):
    agents = [span("t", f"a{n}", parent="root", kind="invoke_agent") for n in range(MAX_CALLED_RUNS + 1)]
    calls = [span("t", f"c{n}", parent=f"a{n}") for n in range(MAX_CALLED_RUNS + 1)]

    reason = reject(api_client, request(span("t", "root", kind="invoke_agent"), *agents, *calls))

    assert reason == "trace t: of the agents that it calls, 100 are recorded."
    assert Trajectory.objects.count() == MAX_CALLED_RUNS + 1


class Counted(dict[str, Span]):
    looks = 0

    def get(self, *arguments):
        self.looks += 1
        return super().get(*arguments)


@pytest.mark.parametrize("root", ["", "s0"], ids=["chain", "circle"])
def test_agents_of_a_long_chain_are_found_by_one_look_at_each_span(root):
    chain = [Span(id=f"s{n}", trace="t", parent=f"s{n - 1}" if n else root) for n in range(500)]
    chain[250].kind = "agent"
    trace = Counted((each.id, each) for each in reversed(chain))

    above = _agents_above(trace)

    assert (above["s249"], above["s251"], above["s499"]) == ("", "s250", "s250")
    assert trace.looks <= len(chain)


def test_trace_without_an_agent_is_no_run(api_client):
    span = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "GET /", "kind": 2}

    answer = api_client.post(URL, {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})

    assert (answer.json(), Trajectory.objects.count()) == ({}, 0)


@pytest.mark.parametrize("body", [b"[]", b"{"])
def test_json_that_is_no_trace_request_is_refused(api_client, body):
    assert api_client.post(URL, body, content_type="application/json").status_code == 400


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


# Log events


def record(name, *, trace="t", id="a", body=None, **attributes):
    """Return a log record as the official instrumentation of OpenAI writes it."""
    pairs = [{"key": key, "value": as_any_value(value)} for key, value in attributes.items()]
    return {"traceId": trace, "spanId": id, "eventName": name, "body": as_any_value(body or {}), "attributes": pairs}


def as_any_value(value):
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": as_any_value(v)} for k, v in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [as_any_value(item) for item in value]}}
    return {"stringValue": value}


def logs(*records):
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


USER = record("gen_ai.user.message", body={"content": "Say hello"})
CHOICE = record("gen_ai.choice", body={"message": {"role": "assistant", "content": "Hello"}})
SILENT = {"traceId": "t", "spanId": "a", "parentSpanId": "", "name": "chat"} | {
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]
}
LOGS = "/otlp/v1/logs"


def test_log_events_after_the_root_complete_its_run(api_client):
    partial = api_client.post(URL, request(SILENT)).json()["partialSuccess"]
    api_client.post(LOGS, logs(USER))
    waiting = Trajectory.objects.get()
    api_client.post(LOGS, logs(CHOICE))

    run = Trajectory.objects.get()
    assert (partial["rejectedSpans"], "stays open for log events" in partial["errorMessage"]) == ("0", True)
    assert (waiting.is_open, run.is_open, run.task, run.spans) == (True, False, "Say hello", [])
    assert run.steps[-1]["action"] == {"name": "respond", "arguments": {"content": "Hello"}}


def test_log_events_before_the_spans_complete_their_run(api_client):
    message = {"role": "user", "parts": [{"type": "text", "content": "Say hello"}]}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}
    said = {"gen_ai.input.messages": [message], "gen_ai.output.messages": [answer]}

    api_client.post(LOGS, logs(record("gen_ai.client.inference.operation.details", **said)))
    waiting = Trajectory.objects.get()
    api_client.post(URL, request(SILENT))

    run = Trajectory.objects.get()
    assert (waiting.is_open, waiting.task, run.is_open, len(run.steps)) == (True, "Say hello", False, 2)


def test_log_events_that_come_again_are_kept_once(api_client):
    for _ in range(2):
        api_client.post(LOGS, logs(USER))

    assert len(Trajectory.objects.get().spans) == 1


def test_other_log_records_are_passed_over(api_client):
    answer = api_client.post(LOGS, logs(record("", body={"text": "GET /"}), {}, {"eventName": ["x"]}))

    assert (answer.json(), Trajectory.objects.count()) == ({}, 0)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (record("gen_ai.choice", trace=""), "What has no trace id cannot be part of a run."),
        (record("gen_ai.choice", body={"content": "a\x00"}), "span 'a' cannot be read."),
    ],
)
def test_log_event_that_cannot_be_read_is_rejected_by_itself(odd, reason, api_client):
    partial = api_client.post(LOGS, logs(odd, USER)).json()["partialSuccess"]

    assert (partial["rejectedLogRecords"], partial["errorMessage"].startswith(reason)) == ("1", True)
    assert Trajectory.objects.get().task == "Say hello"


def test_secrets_in_log_events_are_redacted_and_erased_with_the_run(api_client):
    key = "sk-proj-" + "Ab3" * 16
    api_client.post(LOGS, logs(record("gen_ai.user.message", body={"content": f"Use {key}"})))
    run = Trajectory.objects.get()

    assert key not in json.dumps([run.task, run.spans])
    erase_trajectory(run, by=Actor(label="user:ana"))
    assert not Trajectory.objects.filter(spans__isnull=False).exclude(spans=[]).exists()


def test_another_client_adds_no_log_events_to_a_trace(api_client, project):
    api_client.post(URL, request(SILENT))
    another = make_client(make_api_key(project=project, client="another").token)

    partial = another.post(LOGS, logs(USER)).json()["partialSuccess"]

    assert partial["errorMessage"].startswith("trace t: Another client opened this run")
    assert Trajectory.objects.get().task == "(no task)"


def test_log_events_of_a_trace_do_not_grow_without_end(api_client, project, api_key):
    spans = [request(span("t", f"a{n}", parent="b"))["resourceSpans"][0] for n in range(MAX_TRACE_SPANS)]
    make_trajectory(project=project, is_open=True, external_id="t", spans=spans, client=api_key.api_key.client)

    partial = api_client.post(LOGS, logs(USER)).json()["partialSuccess"]

    assert partial["errorMessage"].startswith("trace t: at most 5,000 spans")


@pytest.mark.parametrize("path", [URL, LOGS, "/otlp/v1/metrics"])
@pytest.mark.parametrize(("body", "kind", "status"), [(b"\x0a\x7fabc", PROTOBUF, 400), (b"x", "text/plain", 415)])
def test_body_that_is_no_request_of_an_exporter_is_refused(path, body, kind, status, api_client, client):
    assert api_client.post(path, body, content_type=kind).status_code == status
    assert client.post(path, body, content_type=kind).status_code == 401


@pytest.mark.django_db(transaction=True)
def test_real_exporter_of_logs_is_understood(live_server):
    headers = {"Authorization": f"Bearer {make_api_key().token}"}
    spans, events = TracerProvider(), LoggerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{live_server.url}{URL}", headers=headers)))
    exporter = OTLPLogExporter(endpoint=f"{live_server.url}{LOGS}", headers=headers, compression=Compression.Gzip)
    events.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = events.get_logger("agent")

    chat = {"gen_ai.operation.name": "chat"}
    with spans.get_tracer("agent").start_as_current_span("chat", attributes=chat):
        logger.emit(LogRecord(event_name="gen_ai.user.message", body={"content": "Say hello"}))
        logger.emit(LogRecord(event_name="gen_ai.choice", body={"index": 0, "message": {"content": "Hello"}}))
    spans.shutdown()
    events.shutdown()

    run = Trajectory.objects.get()
    assert (run.task, run.is_open, run.steps[-1]["action"]["arguments"]) == ("Say hello", False, {"content": "Hello"})


def test_metrics_are_rejected_so_that_they_are_not_sent_again(api_client):
    points = [{"asInt": "1"}, {"asInt": "2"}]
    body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "x", "sum": {"dataPoints": points}}]}]}]}
    encoded = ExportMetricsServiceRequest()
    encoded.resource_metrics.add().scope_metrics.add().metrics.add().gauge.data_points.add().as_int = 1

    plain = api_client.post("/otlp/v1/metrics", body)
    binary = api_client.post("/otlp/v1/metrics", encoded.SerializeToString(), content_type=PROTOBUF)

    answer = ExportMetricsServiceResponse.FromString(binary.content)
    reason = "ERL takes no metrics: set OTEL_METRICS_EXPORTER=none."
    assert (plain.status_code, binary.status_code) == (200, 200)
    assert plain.json() == {"partialSuccess": {"rejectedDataPoints": "2", "errorMessage": reason}}
    assert (answer.partial_success.rejected_data_points, answer.partial_success.error_message) == (1, reason)
