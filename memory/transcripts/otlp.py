"""Decode the protobuf encoding of OTLP requests into their JSON encoding.

Only the fields that say what an agent did are read; field numbers are those of opentelemetry-proto 1.x (trace.proto,
logs.proto, metrics.proto, common.proto).
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .log import UnreadableTranscript

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 32
_FAULTS = (IndexError, struct.error, AttributeError, TypeError, ValueError)  # of bytes that are something else


def decode_trace_request(body: bytes) -> dict[str, Any]:
    """Return an `ExportTraceServiceRequest`.

    Raises UnreadableTranscript when the bytes are not one.
    """
    try:
        return {"resourceSpans": [_resource_spans(value) for number, value in _fields(body) if number == 1]}
    except _FAULTS as error:
        raise UnreadableTranscript("The body is not an OTLP trace request in protobuf.") from error


def decode_log_request(body: bytes) -> dict[str, Any]:
    """Return an `ExportLogsServiceRequest`.

    Raises UnreadableTranscript when the bytes are not one.
    """
    try:
        return {"resourceLogs": [_resource_logs(value) for number, value in _fields(body) if number == 1]}
    except _FAULTS as error:
        raise UnreadableTranscript("The body is not an OTLP log request in protobuf.") from error


def decode_metric_request(body: bytes) -> dict[str, Any]:
    """Return an `ExportMetricsServiceRequest`, of which only the number of data points is read.

    Raises UnreadableTranscript when the bytes are not one.
    """
    try:
        # A metric is a gauge, a sum, a histogram of two kinds or a summary.
        points = _inside([body], 1, 2, 2, (5, 7, 9, 10, 11), 1)
    except _FAULTS as error:
        raise UnreadableTranscript("The body is not an OTLP metric request in protobuf.") from error
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"data": {"dataPoints": [{} for _ in points]}}]}]}]}


def _inside(messages: list[bytes], *path: int | tuple[int, ...]) -> list[bytes]:
    """Return the fields of messages at a path of field numbers."""
    for numbers in path:
        wanted = (numbers,) if isinstance(numbers, int) else numbers
        messages = [value for message in messages for number, value in _fields(message) if number in wanted]
    return messages


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            chunk = data[position : position + size]
            if len(chunk) != size:
                raise IndexError
            yield number, chunk
            position += size
        elif kind == _BYTES:
            size, position = _varint(data, position)
            if position + size > len(data):
                raise IndexError
            yield number, data[position : position + size]
            position += size
        else:
            raise ValueError(kind)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError(shift)


def _resource_spans(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"resource": {"attributes": []}, "scopeSpans": []}
    for number, value in _fields(data):
        if number == 1:
            with suppress(*_FAULTS):
                found["resource"] = {"attributes": [_pair(v) for n, v in _fields(value) if n == 1]}
        elif number == 2:
            found["scopeSpans"].append({"spans": [_read_span(v) for n, v in _fields(value) if n == 2]})
    return found


def _resource_logs(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"resource": {"attributes": []}, "scopeLogs": []}
    for number, value in _fields(data):
        if number == 1:
            with suppress(*_FAULTS):
                found["resource"] = {"attributes": [_pair(v) for n, v in _fields(value) if n == 1]}
        elif number == 2:
            found["scopeLogs"].append({"logRecords": [_read_record(v) for n, v in _fields(value) if n == 2]})
    return found


def _read_record(data: bytes) -> dict[str, Any]:
    """Return a log record, one that says nothing where the bytes hold none: the others are read on."""
    record: dict[str, Any] = {"attributes": []}
    try:
        for number, value in _fields(data):
            if number in (1, 11):
                record["timeUnixNano" if number == 1 else "observedTimeUnixNano"] = struct.unpack("<Q", value)[0]
            elif number == 5:
                record["body"] = _any_value(value, 0)
            elif number == 6:
                record["attributes"].append(_pair(value))
            elif number in (9, 10):
                record["traceId" if number == 9 else "spanId"] = value.hex()
            elif number == 12:
                record["eventName"] = value.decode("utf-8", "replace")
    except _FAULTS:
        return {}
    return record


def _read_span(data: bytes) -> dict[str, Any]:
    """Return a span, one without ids where the bytes hold none: the others of the request are read on."""
    try:
        return _span(data)
    except _FAULTS:
        return {"spanId": "unreadable protobuf"}


def _span(data: bytes) -> dict[str, Any]:
    span: dict[str, Any] = {"attributes": [], "events": [], "status": {}}
    for number, value in _fields(data):
        if number in (1, 2, 4):
            span[{1: "traceId", 2: "spanId", 4: "parentSpanId"}[number]] = value.hex()
        elif number == 5:
            span["name"] = value.decode("utf-8", "replace")
        elif number in (7, 8):
            span["startTimeUnixNano" if number == 7 else "endTimeUnixNano"] = struct.unpack("<Q", value)[0]
        elif number == 9:
            span["attributes"].append(_pair(value))
        elif number == 10:
            span["droppedAttributesCount"] = value
        elif number == 11:
            span["events"].append(_event(value))
        elif number == 15:
            span["status"] = {
                "message" if n == 2 else "code": v.decode("utf-8", "replace") if n == 2 else v
                for n, v in _fields(value)
                if n in (2, 3)
            }
    return span


def _event(data: bytes) -> dict[str, Any]:
    event: dict[str, Any] = {"name": "", "attributes": []}
    for number, value in _fields(data):
        if number == 2:
            event["name"] = value.decode("utf-8", "replace")
        elif number == 3:
            event["attributes"].append(_pair(value))
    return event


def _pair(data: bytes, depth: int = 0) -> dict[str, Any]:
    pair: dict[str, Any] = {"key": "", "value": {}}
    for number, value in _fields(data):
        if number == 1:
            pair["key"] = value.decode("utf-8", "replace")
        elif number == 2:
            pair["value"] = _any_value(value, depth)
    return pair


def _any_value(data: bytes, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise ValueError(depth)
    for number, value in _fields(data):
        if number == 1:
            return {"stringValue": value.decode("utf-8", "replace")}
        if number == 2:
            return {"boolValue": bool(value)}
        if number == 3:
            return {"intValue": value - (1 << 64) if value >= 1 << 63 else value}
        if number == 4:
            return {"doubleValue": struct.unpack("<d", value)[0]}
        if number == 5:
            return {"arrayValue": {"values": [_any_value(v, depth + 1) for n, v in _fields(value) if n == 1]}}
        if number == 6:
            return {"kvlistValue": {"values": [_pair(v, depth + 1) for n, v in _fields(value) if n == 1]}}
        if number == 7:
            return {"bytesValue": value.hex()}
    return {}


def encode_answer(*, rejected: int, reason: str) -> bytes:
    """Return the answer to a request of any kind, with a partial success where there is a reason for one."""
    if not reason:
        return b""
    said = reason.encode()
    partial = b"\x08" + _as_varint(rejected) + b"\x12" + _as_varint(len(said)) + said
    return b"\x0a" + _as_varint(len(partial)) + partial


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
