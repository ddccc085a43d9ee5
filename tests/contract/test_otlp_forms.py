"""POST /otlp/v1/traces and logs with malformed entries: each is rejected by itself, or read in part; others come in."""

import json
import random
from copy import deepcopy
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from memory.runs.models import Trajectory
from tests.lanes import nightly_unless
from tests.real_runs import EXCERPTS

pytestmark = pytest.mark.django_db
URL = "/otlp/v1/traces"
PROTOBUF = "application/x-protobuf"
SAMPLES = EXCERPTS / "transcripts"
GOOD = json.loads((SAMPLES / "otlp_subagent.json").read_text())
ODD: list[Any] = [None, True, -1, 1.5, 10**19, 10**400, "", "--5", "9" * 5000, "x\x00", "\ud800", [], [[]], [None], {}]
ODD += [{"a": {}}, [1, "x", {}], {"stringValue": ["x"]}, {"kvlistValue": []}, {"arrayValue": {"values": {}}}, "[", "{}"]
ODD += [
    '{"a": 1e999}',
    '["\\u0000"]',
    '[{"role": "user", "content": "\\u0000"}]',
    '[{"role": "nobody"}]',
    {"intValue": "--5"},
]


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


def span(**members: Any) -> dict[str, Any]:
    """Return the span of a model call, in a trace of its own."""
    said = [attribute("gen_ai.operation.name", stringValue="chat"), *members.pop("attributes", [])]
    whole = {"traceId": "b" * 32, "spanId": "c" * 16, "name": "chat", "attributes": said}
    return {**whole, **members}


def around(*spans: dict[str, Any]) -> dict[str, Any]:
    """Return a request with some spans between those of another agent."""
    request: dict[str, Any] = deepcopy(GOOD)
    request["resourceSpans"][0]["scopeSpans"].insert(0, {"spans": list(spans)})
    return request


def good_runs() -> list[str]:
    """Return the tasks of the runs that came in with the others, which are the ones of the sample."""
    return sorted(Trajectory.objects.exclude(external_id__startswith="b" * 32).values_list("task", flat=True))


def send(api_client: Any, request: dict[str, Any]) -> Any:
    return api_client.post(URL, json.dumps(request), content_type="application/json")


@pytest.fixture
def wanted(api_client) -> list[str]:
    api_client.post(URL, GOOD)
    tasks = good_runs()
    Trajectory.objects.all().delete()
    return tasks


MALFORMED = {
    "an integer with two signs": span(attributes=[attribute("gen_ai.usage.input_tokens", intValue="--5")]),
    "an integer of 5,000 digits": span(attributes=[attribute("gen_ai.usage.input_tokens", intValue="9" * 5000)]),
    "a number of 5,000 digits": span(attributes=[attribute("gen_ai.usage.input_tokens", intValue=10**4000)]),
    "a double that is too large": span(attributes=[attribute("gen_ai.usage.input_tokens", doubleValue=1e308)] * 2),
    "a time of 5,000 digits": span(startTimeUnixNano="9" * 5000),
    "a time as a list": span(startTimeUnixNano=[1]),
    "an index of 5,000 digits": span(
        attributes=[attribute(f"llm.input_messages.{'9' * 5000}.message.content", stringValue="x")]
    ),
    "an index in other digits": span(attributes=[attribute("llm.input_messages.²٣.message.content", stringValue="x")]),
    "a name with 5,000 dots": span(attributes=[attribute(f"llm.input_messages{'.0' * 5000}", stringValue="x")]),
    "a value nested 40 deep": span(attributes=[{"key": "x", "value": nested(40)}]),
    "a NUL character": span(attributes=[attribute("x", stringValue="a\x00b")]),
    "a NUL in the messages": span(
        attributes=[attribute("gen_ai.input.messages", stringValue='[{"role":"user","content":"\\u0000"}]')]
    ),
    "half a surrogate pair": span(name="\ud800"),
    "messages in an unknown form": span(attributes=[attribute("gen_ai.input.messages", stringValue='[{"role":"x"}]')]),
    "messages that are numbers": span(attributes=[attribute("gen_ai.input.messages", stringValue="[1, [2], null]")]),
    "attributes as a text": span(attributes=[]) | {"attributes": "x"},
    "no ids": {"name": "chat", "attributes": [attribute("gen_ai.operation.name", stringValue="chat")]},
    "ids as numbers": span(traceId=5, spanId=6),
    "a status as a list": span(status=[2], events=[{"name": ["x"], "attributes": 5}]),
    "arguments as a number": span(
        attributes=[
            attribute("gen_ai.operation.name", stringValue="execute_tool"),
            attribute("gen_ai.tool.call.arguments", intValue="5"),
        ]
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_spans_beside_a_malformed_one_come_in(name, api_client, wanted):
    answer = send(api_client, around(MALFORMED[name]))

    assert answer.status_code == 200, answer.content
    assert int(answer.json().get("partialSuccess", {}).get("rejectedSpans", 0)) <= 1
    assert set(wanted) <= set(good_runs())


@pytest.mark.parametrize("name", ["a NUL character", "no ids", "half a surrogate pair"])
def test_answer_says_how_many_spans_were_rejected_and_why(name, api_client):
    partial = send(api_client, around(MALFORMED[name])).json()["partialSuccess"]

    assert partial["rejectedSpans"] == "1"
    assert partial["errorMessage"]


def test_malformed_span_in_the_middle_of_a_trace_leaves_its_run(api_client):
    request = deepcopy(GOOD)
    spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append({**deepcopy(spans[-1]), "spanId": "f" * 16, "startTimeUnixNano": "1", "name": "a\x00b"})

    answer = send(api_client, request)

    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert not Trajectory.objects.filter(is_open=True).exists()


@pytest.mark.parametrize("seed", nightly_unless(lambda seed: seed < 15, range(60)))
def test_whatever_a_span_holds_the_others_come_in(seed, api_client, wanted):
    chance = random.Random(seed)
    request = json.loads((SAMPLES / "otlp_subagent.json").read_text())
    broken = deepcopy(request["resourceSpans"][0]["scopeSpans"][0]["spans"])
    container, key = chance.choice([*places(broken)])
    container[key] = deepcopy(chance.choice(ODD))
    renamed = json.loads(json.dumps(broken).replace(broken[0].get("traceId") or "-", "b" * 32)) if broken else []

    answer = send(api_client, around(*[each for each in renamed if isinstance(each, dict)]))

    assert answer.status_code == 200, answer.content
    assert set(wanted) <= set(good_runs())


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each container in a document with each of its keys."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [place for inner in value.values() for place in places(inner)]
    if isinstance(value, list):
        return [(value, key) for key in range(len(value))] + [place for inner in value for place in places(inner)]
    return []


def protobuf() -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.ParseFromString((SAMPLES / "otlp_genai.pb").read_bytes())
    return request


def with_raw_span(raw: bytes) -> bytes:
    """Return the request of the sample with a span more, as bytes that need not be one."""
    scope = field(2, raw)
    whole: bytes = protobuf().SerializeToString()
    return whole + field(1, field(2, scope))


def field(number: int, content: bytes) -> bytes:
    length, size = len(content), b""
    size += bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
    return bytes([number << 3 | 2]) + size + content


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xff\xff",  # cut in the middle of a field
        field(1, b"\xaa" * 16) + field(5, b"\xff\xfe"),  # a name that is no UTF-8
        field(1, b"\xaa" * 16) + field(9, field(1, b"k") + field(2, b"\x0b")),  # a wire type that does not exist
        field(1, b"\xaa" * 16) + b"\x3d\x00\x00\x00\x00",  # a time of 32 bits
        b"\x08\x01",  # a number as the trace id
        field(1, b"\xaa" * 16) + field(9, b"\x08\x01\x12\x02\x18\x01"),
        b"",
    ],
)
def test_protobuf_spans_beside_a_malformed_one_come_in(raw, api_client):
    answer = api_client.post(URL, with_raw_span(raw), content_type=PROTOBUF)

    assert answer.status_code == 200
    assert "Cancel my reservation EHGLP3." in set(Trajectory.objects.values_list("task", flat=True))


@pytest.mark.parametrize("seed", nightly_unless(lambda seed: seed < 10, range(40)))
def test_protobuf_with_flipped_bytes_is_answered(seed, api_client):
    chance = random.Random(seed)
    body = bytearray(protobuf().SerializeToString())
    at = chance.randrange(len(body))
    body[at] = chance.randrange(256)

    assert api_client.post(URL, bytes(body), content_type=PROTOBUF).status_code in (200, 400)


def log_request() -> bytes:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(event_name="gen_ai.user.message")
    record.trace_id, record.span_id, record.time_unix_nano = b"\xaa" * 16, b"\xbb" * 8, 5
    entry = record.body.kvlist_value.values.add(key="content")
    entry.value.string_value = "Cancel my reservation EHGLP3."
    whole: bytes = request.SerializeToString()
    return whole


def test_log_record_in_protobuf_is_read(api_client):
    api_client.post("/otlp/v1/logs", log_request(), content_type=PROTOBUF)

    assert Trajectory.objects.get().task == "Cancel my reservation EHGLP3."


@pytest.mark.parametrize("seed", nightly_unless(lambda seed: seed < 5, range(20)))
def test_log_records_with_flipped_bytes_are_answered(seed, api_client):
    chance = random.Random(seed)
    body = bytearray(log_request())
    body[chance.randrange(len(body))] = chance.randrange(256)

    assert api_client.post("/otlp/v1/logs", bytes(body), content_type=PROTOBUF).status_code in (200, 400)
