"""Read OpenTelemetry spans: OTLP requests and the console exporter, with GenAI or OpenInference attributes."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from .log import Json, as_text, parse, read_integer, to_count
from .traces import Span, read_list, read_object, read_objects

_OTEL_KINDS = {
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "responses": "llm",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "LLM": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
}


MAX_DEPTH_LEVELS = 32


def spans_of_otlp(request: Mapping[str, Json]) -> list[Span]:
    """Return the spans of an OTLP trace request, as its JSON encoding has them."""
    spans = []
    for resource in read_objects(request.get("resourceSpans")):
        about = _attributes(read_object(resource.get("resource")).get("attributes"))
        for scope in [
            *read_objects(resource.get("scopeSpans")),
            *read_objects(resource.get("instrumentationLibrarySpans")),
        ]:
            spans += [_otel_span(span, about) for span in read_objects(scope.get("spans"))]
    return spans


def _otel_span(raw: Mapping[str, Json], resource: Mapping[str, Json]) -> Span:
    said = _attributes(raw.get("attributes"))
    events = [(as_text(e.get("name")), _attributes(e.get("attributes"))) for e in read_objects(raw.get("events"))]
    for name, about in events:  # older versions log the messages as events
        for member in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"):
            if member in about:
                said.setdefault(member, about[member])
        if name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            said.setdefault(*next(iter(about.items()), (name, "")))
    status = read_object(raw.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR", "ERROR")
    exception = next((about.get("exception.message") for name, about in events if name == "exception"), None)
    kind = _OTEL_KINDS.get(as_text(said.get("gen_ai.operation.name"))) or _OTEL_KINDS.get(
        as_text(said.get("openinference.span.kind")), "other"
    )
    name = as_text(said.get("gen_ai.tool.name") or said.get("tool.name") or raw.get("name"))
    tokens = sum(
        to_count(said.get(a, said.get(b)))
        for a, b in (
            ("gen_ai.usage.input_tokens", "llm.token_count.prompt"),
            ("gen_ai.usage.output_tokens", "llm.token_count.completion"),
        )
    )
    given, returned = _otel_input(said, kind), _otel_output(said, kind)
    return Span(
        id=as_text(raw.get("spanId")),
        trace=as_text(raw.get("traceId")),
        parent=as_text(raw.get("parentSpanId")),
        name=name,
        kind=kind,
        started_at=_nanoseconds(raw.get("startTimeUnixNano")),
        ended_at=_nanoseconds(raw.get("endTimeUnixNano")),
        input=given,
        output=returned,
        error=as_text(exception or status.get("message") or said.get("error.type") or "failed") if failed else "",
        model=as_text(
            said.get("gen_ai.response.model") or said.get("gen_ai.request.model") or said.get("llm.model_name")
        ),
        agent=as_text(said.get("gen_ai.agent.name") or said.get("agent.name")),
        session=as_text(said.get("gen_ai.conversation.id") or said.get("session.id")),
        tokens=tokens,
        tools=read_list(parse(said.get("gen_ai.tool.definitions")))
        or [parse(tool.get("tool.json_schema", tool)) for tool in _numbered(said, "llm.tools.")],
        metadata={"service": resource["service.name"]} if resource.get("service.name") else {},
    )


def _otel_input(said: Mapping[str, Json], kind: str) -> Json:
    if kind == "tool":
        return said.get("gen_ai.tool.call.arguments", said.get("tool.parameters", said.get("input.value")))
    if "gen_ai.input.messages" in said:
        return _otel_messages(said["gen_ai.input.messages"])
    return _indexed(said, "llm.input_messages.") or _indexed(said, "gen_ai.prompt.") or said.get("input.value")


def _otel_output(said: Mapping[str, Json], kind: str) -> Json:
    if kind == "tool":
        return said.get("gen_ai.tool.call.result", said.get("output.value"))
    if "gen_ai.output.messages" in said:
        return _otel_messages(said["gen_ai.output.messages"])
    return _indexed(said, "llm.output_messages.") or _indexed(said, "gen_ai.completion.") or said.get("output.value")


def _otel_messages(value: Json) -> list[Json]:
    """Bring the parts of GenAI messages into the form of content parts."""
    messages = []
    for message in read_objects(parse(value)):
        parts: list[Json] = []
        for part in read_objects(message.get("parts")):
            kind = part.get("type")
            if kind == "text":
                parts.append({"type": "text", "text": as_text(part.get("content"))})
            elif kind == "reasoning":
                parts.append({"type": "thinking", "thinking": as_text(part.get("content"))})
            elif kind == "tool_call_response":
                parts.append({**part, "content": as_text(part.get("response", part.get("result")))})
            else:
                parts.append(part)
        role = "user" if message.get("role") == "tool" else message.get("role")
        messages.append({"role": role, "content": parts if "parts" in message else message.get("content")})
    return messages


def _indexed(said: Mapping[str, Json], prefix: str) -> list[Json]:
    return [_flat_message(item) for item in _numbered(said, prefix)]


def _numbered(said: Mapping[str, Json], prefix: str) -> list[dict[str, Any]]:
    """Rebuild what a tracer wrote as attributes with numbers in their names."""
    tree: dict[str, Any] = {}
    for name, value in said.items():
        if not name.startswith(prefix):
            continue
        node = tree
        *path, last = name.removeprefix(prefix).split(".")
        if len(path) >= MAX_DEPTH_LEVELS:  # no tracer nests so deep
            continue
        for key in path:
            below = node.setdefault(key, {})
            if not isinstance(below, dict):
                break
            node = below
        else:
            node[last] = value
    return [_joined(tree[key]) for key in sorted(tree, key=_place)]


def _place(key: str) -> int:
    return read_integer(key) or 0


def _joined(node: Any) -> dict[str, Any]:
    """Write a tool's two-part attribute name as one again."""
    if isinstance(node, dict) and isinstance(node.get("tool"), dict) and "json_schema" in node["tool"]:
        return {"tool.json_schema": node["tool"]["json_schema"]}
    return node if isinstance(node, dict) else {}


def _flat_message(node: dict[str, Any]) -> dict[str, Any]:
    node = node["message"] if isinstance(node.get("message"), dict) else node
    calls = node.get("tool_calls")
    if isinstance(calls, dict):
        node = {
            **node,
            "tool_calls": [_flat_call(calls[key]) for key in sorted(calls, key=_place)],
        }
    contents = node.get("contents")
    if isinstance(contents, dict):
        parts = [c.get("message_content", c) for _, c in sorted(contents.items())]
        node = {**{n: v for n, v in node.items() if n != "contents"}, "content": parts}
    return node


def _flat_call(node: dict[str, Any]) -> dict[str, Any]:
    node = node["tool_call"] if isinstance(node.get("tool_call"), dict) else node
    return (
        node if "function" in node else {"id": node.get("id"), "function": {n: v for n, v in node.items() if n != "id"}}
    )


def _attributes(pairs: Json) -> dict[str, Json]:
    return {as_text(pair.get("key")): _any_value(pair.get("value")) for pair in read_objects(pairs)}


def _any_value(value: Json) -> Json:
    value = read_object(value)
    for member in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if member in value:
            return value[member]
    if "intValue" in value:
        number = read_integer(value["intValue"])
        return value["intValue"] if number is None else number
    if "arrayValue" in value:
        return [_any_value(item) for item in read_list(read_object(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        return _attributes(read_object(value["kvlistValue"]).get("values"))
    return None


def _nanoseconds(value: Json) -> str:
    number = read_integer(value)
    if number is None or not 0 < number < 253_402_300_799 * 10**9:
        return ""
    return datetime.fromtimestamp(number / 1e9, tz=timezone.utc).isoformat()


def spans_of_console(items: Iterable[Mapping[str, Json]]) -> list[Span]:
    """Return the spans that OpenTelemetry's console exporter prints."""
    spans = []
    for item in items:
        context = read_object(item.get("context"))
        status = read_object(item.get("status"))
        raw = {
            "traceId": as_text(context.get("trace_id")).removeprefix("0x"),
            "spanId": as_text(context.get("span_id")).removeprefix("0x"),
            "parentSpanId": as_text(item.get("parent_id")).removeprefix("0x"),
            "name": item.get("name"),
            "status": {"code": status.get("status_code"), "message": status.get("description")},
            "attributes": [
                {"key": k, "value": _as_any_value(v)} for k, v in read_object(item.get("attributes")).items()
            ],
            "events": [
                {
                    "name": e.get("name"),
                    "attributes": [
                        {"key": k, "value": _as_any_value(v)} for k, v in read_object(e.get("attributes")).items()
                    ],
                }
                for e in read_objects(item.get("events"))
            ],
        }
        span = _otel_span(raw, {})
        span.started_at, span.ended_at = as_text(item.get("start_time")), as_text(item.get("end_time"))
        spans.append(span)
    return spans


def _as_any_value(value: Json) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": value}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_as_any_value(item) for item in value]}}
    return {"stringValue": as_text(value)}
