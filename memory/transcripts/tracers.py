"""Read the spans that Langfuse, LangSmith and the OpenAI Agents SDK export."""

from collections.abc import Iterable, Mapping

from .log import Json, Transcript, as_text, parse, to_count, to_number
from .traces import Span, read_list, read_object, read_objects, transcripts_of

# Langfuse and LangSmith

_LANGFUSE_KINDS = {"GENERATION": "llm", "TOOL": "tool", "AGENT": "agent"}
_LANGSMITH_KINDS = {"llm": "llm", "tool": "tool", "retriever": "tool", "chain": "agent"}


def spans_of_langfuse(observations: Iterable[Mapping[str, Json]]) -> list[Span]:
    spans = []
    for raw in observations:
        usage = read_object(raw.get("usageDetails") or raw.get("usage"))
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
                tokens=to_count(usage.get("total")) or to_count(usage.get("input")) + to_count(usage.get("output")),
                tools=read_list(tools),
            )
        )
    return spans


def transcripts_of_langfuse(traces: Iterable[Mapping[str, Json]]) -> list[Transcript]:
    """Return the runs of Langfuse's traces with their observations."""
    runs = []
    for trace in traces:
        identity = as_text(trace.get("id"))
        observations = [{**o, "traceId": identity} for o in read_objects(trace.get("observations"))]
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
        extra = read_object(read_object(raw.get("extra")).get("metadata"))
        kind = _LANGSMITH_KINDS.get(as_text(raw.get("run_type")), "other")
        if kind == "agent" and raw.get("parent_run_id"):
            kind = "other"
        invocation = read_object(read_object(raw.get("extra")).get("invocation_params"))
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
                tokens=to_count(raw.get("total_tokens")),
                tools=read_list(invocation.get("tools")),
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
            {"trace_id": trace, "parent_run_id": run.get("id"), **child}
            for child in read_objects(run.get("child_runs"))
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
        data = read_object(raw.get("span_data"))
        response = read_object(data.get("response"))
        usage = read_object(data.get("usage") or response.get("usage"))
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
                error=as_text(read_object(error).get("message") or error) if error else "",
                model=as_text(data.get("model") or response.get("model")),
                agent=as_text(data.get("name")) if data.get("type") == "agent" else "",
                tokens=to_count(usage.get("input_tokens")) + to_count(usage.get("output_tokens")),
                tools=read_list(response.get("tools")),
                system_prompt=response.get("instructions"),
            )
        )
    return spans
