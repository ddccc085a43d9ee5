"""POST /otlp/v1/traces: the runs of agents that are traced with OpenTelemetry."""

import json
import zlib
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.input import read_bytes
from memory.intake.received_traces import Receipt, receive_spans
from memory.intake.recording import RunSender
from memory.projects.models import ApiKey
from memory.strict_json import InvalidJson, load_json
from memory.transcripts.log import UnreadableTranscript
from memory.transcripts.otlp import decode_trace_request, encode_trace_answer

MAX_DIGITS = 20  # of a number of 64 bits, with its sign
PROTOBUF, JSON = "application/x-protobuf", "application/json"


class TraceView(ApiView):
    """Takes what OTLP/HTTP exporters send, in protobuf or JSON, also with gzip; answers in the same form."""

    # Spans change nothing when they come again; and a request that holds those of many runs could be erased with none.
    keeps_keys = False
    schema = None  # the contract is OpenTelemetry's
    required_scopes = {"POST": ApiKey.Scope.TRAJECTORIES_WRITE}

    def post(self, request: Request) -> HttpResponse:
        sender = RunSender(client=self.api_key.client, api_key=self.api_key, request_id=self.request_id)
        receipt = receive_spans(self.project, self.body, by=self.actor, sender=sender)
        if request.content_type == PROTOBUF:
            answer = encode_trace_answer(rejected=receipt.rejected, reason=receipt.reason)
            return HttpResponse(answer, content_type=PROTOBUF)
        return HttpResponse(json.dumps(_partial_success(receipt)), content_type=JSON)

    def read(self, request: HttpRequest) -> dict[str, Any]:
        kind = request.content_type
        if kind not in (PROTOBUF, JSON):
            raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, f"Send {PROTOBUF} or {JSON}.")
        body = _unpack(request, read_bytes(request, limit=settings.ERL_API_MAX_REQUEST_BYTES))
        if kind == JSON:
            document = load_json(body, parse_int=_read_int)
        else:
            try:
                document = decode_trace_request(body)
            except UnreadableTranscript as error:
                raise InvalidJson(str(error)) from None
        if not isinstance(document, dict):
            raise InvalidJson("Send an ExportTraceServiceRequest, an object with resourceSpans.")
        return document


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


def _partial_success(receipt: Receipt) -> dict[str, Any]:
    if not receipt.rejected:
        return {}
    return {"partialSuccess": {"rejectedSpans": str(receipt.rejected), "errorMessage": receipt.reason}}
