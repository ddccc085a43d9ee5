"""POST /otlp/v1/traces, /logs and /metrics: the runs of agents that are traced with OpenTelemetry."""

import json
import zlib
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.input import read_bytes
from memory.intake.received_traces import Receipt, receive
from memory.intake.recording import RunSender
from memory.projects.models import ApiKey
from memory.strict_json import InvalidJson, load_json
from memory.transcripts.log import UnreadableTranscript
from memory.transcripts.otlp import decode_log_request, decode_metric_request, decode_trace_request, encode_answer
from memory.transcripts.traces import read_object, read_objects

MAX_DIGITS = 20  # of a number of 64 bits, with its sign
PROTOBUF, JSON = "application/x-protobuf", "application/json"
# How a request is decoded from protobuf, and the member of the answer that counts what is not taken
_SIGNALS = {
    "traces": (decode_trace_request, "rejectedSpans"),
    "logs": (decode_log_request, "rejectedLogRecords"),
    "metrics": (decode_metric_request, "rejectedDataPoints"),
}


class OtlpView(ApiView):
    """Takes what OTLP/HTTP exporters send, in protobuf or JSON, also with gzip; answers in the same form."""

    # Spans change nothing when they come again; and a request that holds those of many runs could be erased with none.
    keeps_keys = False
    schema = None  # the contract is OpenTelemetry's
    required_scopes = {"POST": ApiKey.Scope.TRAJECTORIES_WRITE}
    signal: ClassVar[str]

    def post(self, request: Request) -> HttpResponse:
        receipt = self.receive()
        if request.content_type == PROTOBUF:
            answer = encode_answer(rejected=receipt.rejected, reason=receipt.reason)
            return HttpResponse(answer, content_type=PROTOBUF)
        partial = {_SIGNALS[self.signal][1]: str(receipt.rejected), "errorMessage": receipt.reason}
        return HttpResponse(json.dumps({"partialSuccess": partial} if receipt.reason else {}), content_type=JSON)

    def receive(self) -> Receipt:
        sender = RunSender(client=self.api_key.client, api_key=self.api_key, request_id=self.request_id)
        return receive(self.project, self.body, by=self.actor, sender=sender)

    def read(self, request: HttpRequest) -> dict[str, Any]:
        kind = request.content_type
        if kind not in (PROTOBUF, JSON):
            raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, f"Send {PROTOBUF} or {JSON}.")
        body = _unpack(request, read_bytes(request, limit=settings.ERL_API_MAX_REQUEST_BYTES))
        if kind == JSON:
            document = load_json(body, parse_int=_read_int)
        else:
            try:
                document = _SIGNALS[self.signal][0](body)
            except UnreadableTranscript as error:
                raise InvalidJson(str(error)) from None
        if not isinstance(document, dict):
            raise InvalidJson("Send the request of an OTLP exporter, which is an object.")
        return document


class TraceView(OtlpView):
    signal = "traces"


class LogView(OtlpView):
    """Takes the log events of model calls, which hold the messages that the spans lack. Other logs are ignored."""

    signal = "logs"


class MetricView(OtlpView):
    """Rejects all metrics, in the form that keeps an exporter from sending them again."""

    signal = "metrics"

    def receive(self) -> Receipt:
        receipt = Receipt()
        for resource in read_objects(self.body.get("resourceMetrics")):
            for scope in read_objects(resource.get("scopeMetrics")):
                for metric in read_objects(scope.get("metrics")):
                    points = sum(len(read_objects(read_object(data).get("dataPoints"))) for data in metric.values())
                    receipt.reject(points, "ERL takes no metrics: set OTEL_METRICS_EXPORTER=none.")
        return receipt


def _read_int(digits: str) -> int | str:
    """Read an integer; one that has too many digits for that stays a text, which its span cannot use."""
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def _unpack(request: HttpRequest, body: bytes) -> bytes:
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body plain or with gzip.")
    limit = settings.ERL_API_MAX_REQUEST_BYTES
    try:
        unpacked = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(body, limit + 1)
    except zlib.error as error:
        raise InvalidJson("The body is not gzip.") from error
    if len(unpacked) > limit:
        raise Refusal(ErrorCode.REQUEST_TOO_LARGE, f"Send at most {limit:,} bytes; set a smaller export batch size.")
    return unpacked
