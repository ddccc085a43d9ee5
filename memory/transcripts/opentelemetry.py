"""Read OpenTelemetry spans: OTLP requests and the console exporter, with GenAI or OpenInference attributes.

The messages of a model call stand in attributes, in events of its span, or in log records that name the span.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from .log import Json, as_text, parse, read_integer, to_count
from .traces import Span, as_messages, read_list, read_object, read_objects

_STORES = (
    *("search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory"),
    *("create_memory_store", "delete_memory_store", "retrieval"),
)
_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "responses", "LLM"), "llm"),
    **dict.fromkeys(("execute_tool", *_STORES, "TOOL", "RETRIEVER", "tool"), "tool"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow", "AGENT", "agent", "workflow"), "agent"),
    "plan": "plan",
}
# What the conventions call what is read of a span: GenAI's names first, then those of OpenInference and of OpenLLMetry.
_KIND = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind")
_TOOL = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_CALL_ID = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value", "tool.parameters", "traceloop.entity.input")
_RESULT = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_INPUT = ("gen_ai.input.messages", "llm.input_messages.", "gen_ai.prompt.", "input.value", "traceloop.entity.input")
_OUTPUT = (
    *("gen_ai.output.messages", "llm.output_messages.", "gen_ai.completion."),
    *("output.value", "traceloop.entity.output"),
)
_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_AGENT = ("gen_ai.agent.name", "agent.name")
_SESSION = ("gen_ai.conversation.id", "session.id")
_USER = ("user.id", "enduser.id", "enduser.pseudo.id", "langfuse.user.id", "traceloop.association.properties.user_id")
_TOKENS = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
)
_MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")
_KEPT_ELSEWHERE = re.compile(r"(gen_ai\.[a-z_.]+)[._](?:ref|reference|uri)")  # a file, whose address this is
_ENDS = {"{": "}", "[": "]"}
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_JSON_MARK = re.compile(r'"(?:[^"\\]|\\.)*("|\\?\Z)|[][{},]', re.DOTALL)

MAX_DEPTH_LEVELS = 32
NOT_HERE = "not here"  # the parent of a span of which only events came: it is no root


def spans_of_otlp(request: Mapping[str, Json]) -> list[Span]:
    """Return the spans of an OTLP trace request, as its JSON encoding has them, with what its log records say of them.

    Resources of log requests may stand among those of traces.
    """
    raws: list[tuple[Mapping[str, Json], Mapping[str, Json]]] = []
    records: dict[tuple[str, str], list[Mapping[str, Json]]] = defaultdict(list)
    about: Mapping[str, Json]
    for resource in [*read_objects(request.get("resourceSpans")), *read_objects(request.get("resourceLogs"))]:
        about = _attributes(read_object(resource.get("resource")).get("attributes"))
        for member in ("scopeSpans", "instrumentationLibrarySpans", "scopeLogs"):
            for scope in read_objects(resource.get(member)):
                raws += [(span, about) for span in read_objects(scope.get("spans"))]
                for record in read_objects(scope.get("logRecords")):
                    records[as_text(record.get("traceId")), as_text(record.get("spanId"))].append(record)
    spans = []
    for raw, about in raws:
        late = records.pop((as_text(raw.get("traceId")), as_text(raw.get("spanId"))), [])
        spans.append(_otel_span(raw, about, late))
    for (trace, span), late in records.items():
        if any(is_told_by_event(record) for record in late):
            raw = {"traceId": trace, "spanId": span, "parentSpanId": NOT_HERE, "startTimeUnixNano": _time(late[0])}
            spans.append(_otel_span(raw, {}, late))
    return spans


def is_told_by_event(record: Mapping[str, Json]) -> bool:
    """Tell whether a log record is an event of a model call."""
    return _event_name(record).startswith("gen_ai.")


def _event_name(record: Mapping[str, Json]) -> str:
    """Return the name of an event, which older SDKs wrote as an attribute."""
    named = [pair for pair in read_objects(record.get("attributes")) if pair.get("key") == "event.name"]
    return as_text(record.get("eventName") or _attributes(named).get("event.name"))


def _time(record: Mapping[str, Json]) -> int:
    return read_integer(record.get("timeUnixNano")) or read_integer(record.get("observedTimeUnixNano")) or 0


def _otel_span(
    raw: Mapping[str, Json], resource: Mapping[str, Json], records: Sequence[Mapping[str, Json]] = ()
) -> Span:
    said = _attributes(raw.get("attributes"))
    written = set(said)
    events = [(as_text(e.get("name")), _attributes(e.get("attributes"))) for e in read_objects(raw.get("events"))]
    events += [
        (_event_name(record), {**_attributes(record.get("attributes")), **read_object(_any_value(record.get("body")))})
        for record in sorted(records, key=_time)
    ]
    _add_events(said, events)
    status = read_object(raw.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR", "ERROR")
    exception = next((about.get("exception.message") for name, about in events if name == "exception"), None)
    kind = next((_KINDS[as_text(said.get(name))] for name in _KIND if as_text(said.get(name)) in _KINDS), "other")
    if kind == "other" and records:
        kind = "llm"
    left_out = _name_what_is_missing(raw, said)
    given = _read_words(said, _ARGUMENTS if kind == "tool" else _INPUT, kind, left_out)
    returned = _read_words(said, _RESULT if kind == "tool" else _OUTPUT, kind, left_out)
    name = as_text(_first(said, _TOOL) or raw.get("name"))
    if (operation := as_text(said.get("gen_ai.operation.name"))) in _STORES:
        name, given, returned = operation, *_read_memory(said, operation)
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
        model=as_text(_first(said, _MODEL)),
        agent=as_text(_first(said, _AGENT)),
        session=as_text(_first(said, _SESSION)),
        user=as_text(_first(said, _USER)),
        tokens=sum(to_count(_first(said, names)) for names in _TOKENS),
        tools=read_list(parse(said.get("gen_ai.tool.definitions")))
        or [parse(tool.get("tool.json_schema", tool)) for tool in _numbered(said, "llm.tools.")],
        system_prompt=parse(said.get("gen_ai.system_instructions")),
        metadata={"service": resource["service.name"]} if resource.get("service.name") else {},
        call_id=as_text(_first(said, _CALL_ID)) if kind == "tool" else "",
        left_out=left_out,
        awaits_events=kind == "llm"
        and returned is None
        and not failed
        and not any(name.startswith(_INPUT) for name in written),
    )


def _first(said: Mapping[str, Json], names: Iterable[str]) -> Json:
    return next((said[name] for name in names if said.get(name) not in (None, "")), None)


def _add_events(said: dict[str, Json], events: Iterable[tuple[str, Mapping[str, Json]]]) -> None:
    """Add what the events of a span say to its attributes, which count first.

    An event holds all messages of a call, or one of them: in its attributes as an event of a span, in its body as a log
    record.
    """
    given: list[Json] = []
    returned: list[Json] = []
    for name, about in events:
        if name == "gen_ai.client.inference.operation.details" or any(member in about for member in _MESSAGES):
            said.update({member: value for member, value in about.items() if member not in said})
        elif name == "gen_ai.choice":
            message = parse(about.get("message"))
            message = message if isinstance(message, Mapping) else {"content": message}
            returned += _event_message("assistant", message)
            if "tool.result" in about:  # Strands tells it with the answer that called the tools
                returned += _event_message("tool", {"content": about["tool.result"]})
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            given += _event_message(name.split(".")[1], about)
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            (given if name.endswith("prompt") else returned).extend(
                as_messages(next(iter(about.values()), None), "user" if name.endswith("prompt") else "assistant")
            )
    if said.get("gen_ai.operation.name") == "execute_tool":
        for names, messages in ((_ARGUMENTS, given), (_RESULT, returned)):
            if messages and _first(said, names) is None:
                said[names[0]] = _plain_content(messages[-1])
        return
    for member, messages in zip(_MESSAGES[:2], (given, returned), strict=True):
        if messages:
            said.setdefault(member, messages)


def _event_message(role: str, about: Mapping[str, Json]) -> list[Json]:
    """Return the message of an event, none where the tracer did not record its words."""
    content = parse(about.get("content"))
    calls = about.get("tool_calls")
    if content in (None, "", []) and not calls:
        return []
    message: dict[str, Json] = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
    if role == "tool" and about.get("id"):
        message["tool_call_id"] = about["id"]
    return [message]


def _plain_content(message: Json) -> Json:
    """Return the content of a tool's message: a text, where it is one."""
    content = read_object(message).get("content")
    texts = [part["text"] for part in read_objects(content) if isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts and len(texts) == len(read_list(content)) else content


def _name_what_is_missing(raw: Mapping[str, Json], said: Mapping[str, Json]) -> list[str]:
    missing = []
    if dropped := to_count(read_integer(raw.get("droppedAttributesCount"))):
        missing.append(f"{dropped} attributes, which the SDK dropped: raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
    for name, value in said.items():
        if reference := _KEPT_ELSEWHERE.fullmatch(name):
            missing.append(f"{reference[1]}, which is kept at {as_text(value)[:500]}")
    return missing


def _read_words(said: Mapping[str, Json], names: Iterable[str], kind: str, left_out: list[str]) -> Json:
    """Return what a span was given or returned: messages where its tracer writes them, else the value of any form."""
    for name in names:
        if name.endswith("."):
            if messages := _indexed(said, name):
                return messages
            continue
        value = said.get(name)
        if value in (None, "", []):
            continue
        if kind == "tool":
            return _call_arguments(value) if names is _ARGUMENTS else _text(value)
        words, is_cut = read_json(value)
        if is_cut:
            left_out.append(f"the end of {name}, which a limit of the tracer cut off")
        return (_messages(words) or None) if name in _MESSAGES and isinstance(words, list) else words
    return None


def _call_arguments(value: Json) -> Json:
    """Return the arguments of a call from those of the Python method that a tracer saw."""
    about = read_object(parse(value))
    if isinstance(about.get("kwargs"), Mapping) and set(about) <= {"args", "kwargs", "sanitize_inputs_outputs"}:
        return {**({"args": about["args"]} if about.get("args") else {}), **about["kwargs"]}
    return value


def _text(value: Json) -> Json:
    """Return the text that a tracer wrote as JSON, anything else as it is."""
    if isinstance(value, str) and value[:1] == value[-1:] == '"':
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def read_json(value: Json) -> tuple[Json, bool]:
    """Parse an object or a list that a text holds, and tell whether the text ends in the middle of it.

    What stands before the cut is returned; anything else is returned as it is.
    """
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value, False
    whole = parse(value)
    if whole is not value:
        return whole, False
    open_ends: list[str] = []
    end, is_in_string = 0, False  # where the last whole entry ends; whether the text ends in a string
    for match in _JSON_MARK.finditer(value):
        mark = match[0]
        is_in_string = match[1] in ("", "\\")
        if mark in _ENDS:
            open_ends.append(_ENDS[mark])
        elif mark in _ENDS.values() and (not open_ends or open_ends.pop() != mark):
            return value, False
        if mark[0] != '"':
            end = match.start() if mark == "," else match.end()
    if not open_ends:
        return value, False
    closing = "".join(reversed(open_ends))
    # A string may end in the middle of an escape, and be the name of a member, which has no value then.
    for text in (_CUT_ESCAPE.sub("", value) + '"' * is_in_string, value[:end]):
        try:
            document = json.loads(text + closing)
        except (ValueError, RecursionError):
            continue
        return (document, True) if document else (value, False)
    return value, False


def _messages(value: Json) -> list[Json]:
    """Bring GenAI messages and their parts into the form of chat messages."""
    messages: list[Json] = []
    for message in read_objects(value):
        content = message.get("parts", message.get("content"))
        parts = [_part(part) for part in content] if isinstance(content, list) else content
        is_result = isinstance(parts, list) and any(read_object(p).get("type") == "tool_call_response" for p in parts)
        role = "user" if is_result or (message.get("role") == "tool" and "parts" in message) else message.get("role")
        kept = {name: message[name] for name in ("tool_calls", "tool_call_id") if name in message}
        messages.append({"role": role, "content": parts, **kept})
    return messages


def _part(part: Json) -> Json:
    """Bring a part of a message, of the GenAI conventions or of Bedrock, into the form of a content part."""
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind == "text" and "content" in part:
        return {"type": "text", "text": as_text(part["content"])}
    if kind == "reasoning":
        return {"type": "thinking", "thinking": as_text(part.get("content"))}
    if kind == "tool_call_response":
        return {**part, "content": as_text(part.get("response", part.get("result")))}
    if isinstance(call := part.get("toolUse"), Mapping):
        return {"type": "tool_call", "id": call.get("toolUseId"), "name": call.get("name"), "input": call.get("input")}
    if isinstance(result := part.get("toolResult"), Mapping):
        content = _plain_content(result)
        failed = result.get("status") == "error"
        return {"type": "tool_call_response", "id": result.get("toolUseId"), "content": content, "is_error": failed}
    if isinstance(part.get("reasoningContent"), Mapping):
        reasoning = read_object(part["reasoningContent"].get("reasoningText"))
        return {"type": "thinking", "thinking": as_text(reasoning.get("text"))}
    return part


def _read_memory(said: Mapping[str, Json], operation: str) -> tuple[Json, Json]:
    """Return what a memory or a search engine was given, and what it returned."""
    about: dict[str, Json] = {}
    for prefix in ("gen_ai.memory.", "gen_ai.retrieval."):
        about |= {name.removeprefix(prefix): parse(value) for name, value in said.items() if name.startswith(prefix)}
    returned = about.pop("documents", None)
    if operation == "search_memory":
        returned = about.pop("records", None)
    return about, returned


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
            "droppedAttributesCount": item.get("dropped_attributes"),
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
