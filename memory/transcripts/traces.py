"""Read traces: OpenTelemetry (GenAI and OpenInference attributes), Langfuse, LangSmith and OpenAI Agents spans.

Every tracer's spans are brought into one form; what an agent did is read from the last model call of its trace, whose
input is the whole conversation, and from the spans of tools.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from .log import Json, Log, Transcript, as_text, read_arguments, to_number
from .messages import is_message, read_messages


@dataclass(kw_only=True, slots=True)
class Span:
    """One span of any tracer. `kind` is llm, tool, agent or other; times sort as they are."""

    id: str
    trace: str
    parent: str = ""
    name: str = ""
    kind: str = "other"
    started_at: str = ""
    ended_at: str = ""
    input: Json = None
    output: Json = None
    error: str = ""
    model: str = ""
    agent: str = ""
    session: str = ""
    tokens: int = 0
    tools: list[Json] = field(default_factory=list)
    metadata: dict[str, Json] = field(default_factory=dict)


def transcripts_of(spans: Iterable[Span], *, format: str) -> list[Transcript]:
    """Return the run of each trace, in the order of their start; an agent that another agent calls has its own run.

    A span that came twice counts once.
    """
    traces: dict[str, dict[str, Span]] = defaultdict(dict)
    for span in spans:
        traces[span.trace].setdefault(span.id, span)
    ordered = sorted(traces.values(), key=lambda spans: min((s.started_at for s in spans.values()), default=""))
    return [run for trace in ordered for run in _runs_of(trace, format=format)]


def _runs_of(trace: Mapping[str, Span], *, format: str) -> list[Transcript]:
    """Return the run of a trace and those of its sub-agents, each after the run that called it."""
    groups: dict[str, list[Span]] = defaultdict(list)
    callers: dict[str, str] = {}
    above = _agents_above(trace)
    for span in sorted(trace.values(), key=lambda span: (span.started_at, span.id)):
        inside = _agents_around(span, above)
        own = inside[0] if len(inside) > 1 else ""  # the outermost agent's run is the run of the trace
        groups[own].append(span)
        if own:
            callers[own] = inside[1] if len(inside) > 2 else ""
    runs = []
    for own, spans in sorted(groups.items(), key=lambda group: (group[0] != "", group[1][0].started_at)):
        if own and not any(span.kind in ("llm", "tool") for span in spans):
            groups[callers[own]] += spans
            continue
        run = _transcript(spans, format=format)
        if own:
            run.external_id = f"{run.external_id}/{own}"
            run.parent_id = f"{spans[0].trace}/{callers[own]}" if callers[own] else spans[0].trace
        runs.append(run)
    return runs


def _agents_above(trace: Mapping[str, Span]) -> dict[str, str]:
    """Return the nearest agent above each span, by their ids, "" where there is none. Visits each span once."""
    above: dict[str, str] = {}
    for span in trace.values():
        way = []
        at: Span | None = span
        found = ""
        while at is not None and at.id not in above:
            above[at.id] = ""  # a circle of spans has no agent above it
            way.append(at.id)
            at = trace.get(at.parent)
            if at is not None:
                found = at.id if at.kind == "agent" else above.get(at.id, "")
                at = None if found else at
        above.update(dict.fromkeys(way, found))
    return above


def _agents_around(span: Span, above: Mapping[str, str]) -> list[str]:
    """Return the ids of the agents that a span belongs to, the innermost first, three at most."""
    found: list[str] = []
    at = span.id if span.kind == "agent" else above[span.id]
    while at and at not in found and len(found) < 3:
        found.append(at)
        at = above[at]
    return found


def _transcript(spans: list[Span], *, format: str) -> Transcript:
    spans = sorted(spans, key=lambda span: (span.started_at, span.id))
    ids = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in ids), spans[0])
    log = Log()
    models = [span for span in spans if span.kind == "llm" and (span.input is not None or span.output is not None)]
    if models:
        # Later calls of the same conversation repeat what was said before, so the longest holds it all.
        lengths = [len(_as_messages(span.input, "user")) for span in models]
        last = models[len(models) - 1 - lengths[::-1].index(max(lengths))]
        read_messages(
            log, [*_as_messages(last.input, "user"), *_as_messages(last.output, "assistant")], f"span {last.id}"
        )
        log.end_turn()
        _mark_errors(log, spans)
        _note_what_is_missing(log, spans)
    else:
        if (asked := _plain(root.input)) and root.kind != "tool":
            log.hear(asked)
        for span in spans:
            if span.kind == "tool":
                log.call(span.name or "tool", read_arguments(_unwrap(span.input), f"span {span.id}"), id=span.id)
                log.result(span.error or as_text(span.output), id=span.id, failed=bool(span.error))
        if root.kind != "tool":
            log.say(_plain(root.output))
    known = {
        name: getattr(span, name) for name in ("agent", "session") for span in reversed(spans) if getattr(span, name)
    }
    metadata: dict[str, Json] = dict(root.metadata)
    if known.get("session"):
        metadata["session"] = known["session"]
    if root.error:
        metadata["error"] = root.error
    return log.transcript(
        format=format,
        task=log.task or _plain(root.input) or root.name,
        external_id=root.trace,
        agent=known.get("agent") or (root.name if root.kind == "agent" else ""),
        model=next((span.model for span in models if span.model), ""),
        tools=next((span.tools for span in reversed(models) if span.tools), []),
        started_at=min((s.started_at for s in spans if s.started_at), default=""),
        ended_at=max((s.ended_at for s in spans if s.ended_at), default=""),
        tokens=sum(span.tokens for span in models) or None,
        metadata=metadata,
    )


def _note_what_is_missing(log: Log, spans: list[Span]) -> None:
    """Name the calls that are in the trace and not in its longest conversation."""
    told = Counter(step["action"]["name"] for step in log.steps if step["action"])
    for span in spans:
        if span.kind == "tool" and told[span.name] > 0:
            told[span.name] -= 1
        elif span.kind == "tool":
            log.leave_out(f"span {span.id}", f"a call of {span.name} outside the longest conversation of the trace")


def _mark_errors(log: Log, spans: list[Span]) -> None:
    """Set the error of a call whose span failed, where the messages only hold what the model was told."""
    failed: dict[tuple[str, str], list[Span]] = defaultdict(list)  # by name and arguments, "" where these are unknown
    for span in reversed(spans):
        if span.kind == "tool" and span.error:
            given = "" if span.input is None else _in_order(read_arguments(_unwrap(span.input), ""))
            failed[span.name, given].append(span)
    for step in log.steps:
        if step["action"] is None or step["error"]:
            continue
        name = step["action"]["name"]
        if same := failed.get((name, _in_order(step["action"]["arguments"]))) or failed.get((name, "")):
            step["error"] = same.pop().error


def _in_order(value: Json) -> str:
    """Return a text that is equal for equal values."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""


def _as_messages(value: Json, role: str) -> list[Json]:
    """Return the messages in the input or output of a model call, in whatever wrapping its tracer puts them."""
    value = parse(value)
    if isinstance(value, Mapping):
        for member in ("messages", "input", "output", "choices", "generations", "message", "content", "kwargs"):
            if member == "content" and not isinstance(value.get("content"), list):
                continue
            if member in value and not is_message(value):
                return _as_messages(value[member], role)
        return [value] if is_message(value) else [{"role": role, "content": as_text(value)}]
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list):  # LangSmith: a batch of one
            return _as_messages(value[0], role)
        found: list[Json] = []
        for item in value:
            item = parse(item)
            if is_message(item):
                found.append(item)
            elif isinstance(item, Mapping) and "message" in item:
                found.extend(_as_messages(item["message"], role))
            elif isinstance(item, Mapping | list):
                found.extend(_as_messages(item, role))
            elif item is not None:
                found.append({"role": role, "content": as_text(item)})
        return found
    return [] if value in (None, "") else [{"role": role, "content": as_text(value)}]


def parse(value: Json) -> Json:
    """Return what a string of JSON holds, where it is an object or a list; anything else as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _unwrap(value: Json) -> Json:
    value = parse(value)
    if isinstance(value, Mapping) and set(value) == {"input"}:
        inner = parse(value["input"])
        return inner if isinstance(inner, Mapping) else value
    return value


def _plain(value: Json) -> str:
    """Return what a person reads in the input or output of a run."""
    value = parse(value)
    if isinstance(value, Mapping):
        for member in (
            "input",
            "question",
            "task",
            "query",
            "prompt",
            "output",
            "answer",
            "result",
            "content",
            "messages",
        ):
            if value.get(member):
                return _plain(value[member])
    if isinstance(value, list) and value and all(is_message(item) for item in value):
        log = Log()
        read_messages(log, value, "messages")
        return log.task or log.transcript().steps[-1]["observation"]
    return as_text(value)


# OpenTelemetry

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


def spans_of_otlp(request: Mapping[str, Json]) -> list[Span]:
    """Return the spans of an OTLP trace request, as its JSON encoding has them."""
    spans = []
    for resource in _objects(request.get("resourceSpans")):
        about = _attributes(_object(resource.get("resource")).get("attributes"))
        for scope in [*_objects(resource.get("scopeSpans")), *_objects(resource.get("instrumentationLibrarySpans"))]:
            spans += [_otel_span(span, about) for span in _objects(scope.get("spans"))]
    return spans


def _otel_span(raw: Mapping[str, Json], resource: Mapping[str, Json]) -> Span:
    said = _attributes(raw.get("attributes"))
    events = [(as_text(e.get("name")), _attributes(e.get("attributes"))) for e in _objects(raw.get("events"))]
    for name, about in events:  # older versions log the messages as events
        for member in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"):
            if member in about:
                said.setdefault(member, about[member])
        if name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            said.setdefault(*next(iter(about.items()), (name, "")))
    status = _object(raw.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR", "ERROR")
    exception = next((about.get("exception.message") for name, about in events if name == "exception"), None)
    kind = _OTEL_KINDS.get(as_text(said.get("gen_ai.operation.name"))) or _OTEL_KINDS.get(
        as_text(said.get("openinference.span.kind")), "other"
    )
    name = as_text(said.get("gen_ai.tool.name") or said.get("tool.name") or raw.get("name"))
    tokens = sum(
        int(to_number(said.get(a, said.get(b))) or 0)
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
        tools=_list(parse(said.get("gen_ai.tool.definitions")))
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
    for message in _objects(parse(value)):
        parts: list[Json] = []
        for part in _objects(message.get("parts")):
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
        for key in path:
            below = node.setdefault(key, {})
            if not isinstance(below, dict):
                break
            node = below
        else:
            node[last] = value
    return [_joined(tree[key]) for key in sorted(tree, key=lambda key: int(key) if key.isdecimal() else 0)]


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
            "tool_calls": [
                _flat_call(calls[key]) for key in sorted(calls, key=lambda key: int(key) if key.isdecimal() else 0)
            ],
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
    return {as_text(pair.get("key")): _any_value(pair.get("value")) for pair in _objects(pairs)}


def _any_value(value: Json) -> Json:
    value = _object(value)
    for member in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if member in value:
            return value[member]
    if "intValue" in value:
        return int(value["intValue"]) if str(value["intValue"]).lstrip("-").isdecimal() else value["intValue"]
    if "arrayValue" in value:
        return [_any_value(item) for item in _list(_object(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        return _attributes(_object(value["kvlistValue"]).get("values"))
    return None


def _nanoseconds(value: Json) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not text.isdecimal() or int(text) == 0 or int(text) > 253_402_300_799 * 10**9:
        return ""
    return datetime.fromtimestamp(int(text) / 1e9, tz=timezone.utc).isoformat()


def spans_of_console(items: Iterable[Mapping[str, Json]]) -> list[Span]:
    """Return the spans that OpenTelemetry's console exporter prints."""
    spans = []
    for item in items:
        context = _object(item.get("context"))
        status = _object(item.get("status"))
        raw = {
            "traceId": as_text(context.get("trace_id")).removeprefix("0x"),
            "spanId": as_text(context.get("span_id")).removeprefix("0x"),
            "parentSpanId": as_text(item.get("parent_id")).removeprefix("0x"),
            "name": item.get("name"),
            "status": {"code": status.get("status_code"), "message": status.get("description")},
            "attributes": [{"key": k, "value": _as_any_value(v)} for k, v in _object(item.get("attributes")).items()],
            "events": [
                {
                    "name": e.get("name"),
                    "attributes": [
                        {"key": k, "value": _as_any_value(v)} for k, v in _object(e.get("attributes")).items()
                    ],
                }
                for e in _objects(item.get("events"))
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


# Langfuse and LangSmith

_LANGFUSE_KINDS = {"GENERATION": "llm", "TOOL": "tool", "AGENT": "agent"}
_LANGSMITH_KINDS = {"llm": "llm", "tool": "tool", "retriever": "tool", "chain": "agent"}


def spans_of_langfuse(observations: Iterable[Mapping[str, Json]]) -> list[Span]:
    spans = []
    for raw in observations:
        usage = _object(raw.get("usageDetails") or raw.get("usage"))
        failed = raw.get("level") == "ERROR"
        given = raw.get("input")
        tools = parse(given).get("tools") if isinstance(parse(given), Mapping) else None
        spans.append(
            Span(
                id=as_text(raw.get("id")),
                trace=as_text(raw.get("traceId", raw.get("trace_id"))),
                parent=as_text(raw.get("parentObservationId", raw.get("parent_observation_id"))),
                name=as_text(raw.get("name")),
                kind=_LANGFUSE_KINDS.get(as_text(raw.get("type")).upper(), "other"),
                started_at=as_text(raw.get("startTime", raw.get("start_time"))),
                ended_at=as_text(raw.get("endTime", raw.get("end_time"))),
                input=given,
                output=raw.get("output"),
                error=as_text(raw.get("statusMessage", raw.get("status_message")) or "failed") if failed else "",
                model=as_text(raw.get("model")),
                session=as_text(raw.get("sessionId")),
                tokens=int(
                    to_number(usage.get("total"))
                    or (to_number(usage.get("input")) or 0) + (to_number(usage.get("output")) or 0)
                ),
                tools=_list(tools),
            )
        )
    return spans


def transcripts_of_langfuse(traces: Iterable[Mapping[str, Json]]) -> list[Transcript]:
    """Return the runs of Langfuse's traces with their observations."""
    runs = []
    for trace in traces:
        identity = as_text(trace.get("id"))
        observations = [{**o, "traceId": identity} for o in _objects(trace.get("observations"))]
        top = Span(
            id=identity,
            trace=identity,
            name=as_text(trace.get("name")),
            kind="other" if any(as_text(o.get("type")).upper() == "AGENT" for o in observations) else "agent",
            started_at=as_text(trace.get("timestamp")),
            input=trace.get("input"),
            output=trace.get("output"),
            session=as_text(trace.get("sessionId")),
            metadata={
                n: v for n in ("metadata", "tags", "scores", "userId", "release", "version") if (v := trace.get(n))
            },
        )
        children = spans_of_langfuse(observations)
        for span in children:
            span.parent = span.parent or identity
        found = transcripts_of([top, *children], format="langfuse")
        cost = to_number(trace.get("totalCost"))
        found[0].cost_usd = cost if cost else None
        runs += found
    return runs


def spans_of_langsmith(runs: Iterable[Mapping[str, Json]]) -> list[Span]:
    spans = []
    for raw in _with_children(runs):
        identity = as_text(raw.get("id"))
        extra = _object(_object(raw.get("extra")).get("metadata"))
        kind = _LANGSMITH_KINDS.get(as_text(raw.get("run_type")), "other")
        if kind == "agent" and raw.get("parent_run_id"):
            kind = "other"
        invocation = _object(_object(raw.get("extra")).get("invocation_params"))
        spans.append(
            Span(
                id=identity,
                trace=as_text(raw.get("trace_id")) or identity,
                parent=as_text(raw.get("parent_run_id")),
                name=as_text(raw.get("name")),
                kind=kind,
                started_at=as_text(raw.get("start_time")),
                ended_at=as_text(raw.get("end_time")),
                input=raw.get("inputs"),
                output=raw.get("outputs"),
                error=as_text(raw.get("error")),
                model=as_text(extra.get("ls_model_name") or invocation.get("model") or invocation.get("model_name")),
                session=as_text(extra.get("session_id") or extra.get("thread_id")),
                tokens=int(to_number(raw.get("total_tokens")) or 0),
                tools=_list(invocation.get("tools")),
                metadata={
                    n: v for n in ("tags", "feedback_stats") if (v := raw.get(n)) and not raw.get("parent_run_id")
                },
            )
        )
    return spans


def _with_children(runs: Iterable[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    found: list[Mapping[str, Json]] = []
    for run in runs:
        found.append(run)
        trace = run.get("trace_id") or run.get("id")
        children = [
            {"trace_id": trace, "parent_run_id": run.get("id"), **child} for child in _objects(run.get("child_runs"))
        ]
        found += _with_children(children)
    return found


# OpenAI Agents SDK


def spans_of_agents_sdk(items: Iterable[Mapping[str, Json]]) -> list[Span]:
    """Return the spans of what the Agents SDK's trace exporter writes: traces and spans in one list."""
    kinds = {"generation": "llm", "response": "llm", "function": "tool", "agent": "agent"}
    spans = []
    items = list(items)
    sessions = {as_text(raw.get("id")): as_text(raw.get("group_id")) for raw in items if raw.get("object") == "trace"}
    names = {as_text(raw.get("id")): raw.get("workflow_name") for raw in items if raw.get("object") == "trace"}
    for raw in items:
        if raw.get("object") != "trace.span":
            continue
        trace = as_text(raw.get("trace_id"))
        data = _object(raw.get("span_data"))
        response = _object(data.get("response"))
        usage = _object(data.get("usage") or response.get("usage"))
        error = raw.get("error")
        spans.append(
            Span(
                id=as_text(raw.get("id")),
                trace=trace,
                session=sessions.get(trace, ""),
                metadata={"workflow": names[trace]} if names.get(trace) else {},
                parent=as_text(raw.get("parent_id")),
                name=as_text(data.get("name")),
                kind=kinds.get(as_text(data.get("type")), "other"),
                started_at=as_text(raw.get("started_at")),
                ended_at=as_text(raw.get("ended_at")),
                input=data.get("input"),
                output=data.get("output", response.get("output")),
                error=as_text(_object(error).get("message") or error) if error else "",
                model=as_text(data.get("model") or response.get("model")),
                agent=as_text(data.get("name")) if data.get("type") == "agent" else "",
                tokens=int((to_number(usage.get("input_tokens")) or 0) + (to_number(usage.get("output_tokens")) or 0)),
                tools=_list(response.get("tools")),
            )
        )
    return spans


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list) else []


def _objects(value: Json) -> list[Mapping[str, Json]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
