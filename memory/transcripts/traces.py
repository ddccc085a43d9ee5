"""Read what an agent did from the spans of a trace; `opentelemetry` and `tracers` make the spans.

The last model call of a trace has the whole conversation as its input. The spans of tools say what they answered.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .log import Json, Log, Transcript, as_text, parse, read_arguments
from .messages import is_message, read_messages, read_or_leave_out

_NOTHING = ("", "[]", "{}", "null")


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
        lengths = [len(as_messages(span.input, "user")) for span in models]
        last = models[len(models) - 1 - lengths[::-1].index(max(lengths))]
        for number, message in enumerate([*as_messages(last.input, "user"), *as_messages(last.output, "assistant")]):
            read_or_leave_out(log, message, f"span {last.id}[{number}]")
        log.end_turn()
        _mark_errors(log, spans)
        _note_what_is_missing(log, spans)
    else:
        if (asked := plain(root.input)) and root.kind != "tool":
            log.hear(asked)
        for span in spans:
            if span.kind == "tool":
                log.call(span.name or "tool", _arguments(span.input), id=span.id)
                log.result(span.error or as_text(span.output), id=span.id, failed=bool(span.error))
        if root.kind != "tool":
            log.say(plain(root.output))
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
        task=next((task for task in (log.task, plain(root.input)) if task.strip() not in _NOTHING), ""),
        name=root.name,
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
            given = "" if span.input is None else _in_order(_arguments(span.input))
            failed[span.name, given].append(span)
    for step in log.steps:
        if step["action"] is None or step["error"]:
            continue
        name = step["action"]["name"]
        if same := failed.get((name, _in_order(step["action"]["arguments"]))) or failed.get((name, "")):
            step["error"] = same.pop().error


def _arguments(value: Json) -> dict[str, Json]:
    """Return the arguments of a tool's span: a value that is no object is kept as `input`."""
    value = unwrap(value)
    return {"input": value} if isinstance(value, int | float) else read_arguments(value, "")


def _in_order(value: Json) -> str:
    """Return a text that is equal for equal values."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""


def as_messages(value: Json, role: str) -> list[Json]:
    """Return the messages in the input or output of a model call, in whatever wrapping its tracer puts them."""
    value = parse(value)
    if isinstance(value, Mapping):
        for member in ("messages", "input", "output", "choices", "generations", "message", "content", "kwargs"):
            if member == "content" and not isinstance(value.get("content"), list):
                continue
            if member in value and not is_message(value):
                return as_messages(value[member], role)
        return [value] if is_message(value) else [{"role": role, "content": as_text(value)}]
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list):  # LangSmith: a batch of one
            return as_messages(value[0], role)
        found: list[Json] = []
        for item in value:
            item = parse(item)
            if is_message(item):
                found.append(item)
            elif isinstance(item, Mapping) and "message" in item:
                found.extend(as_messages(item["message"], role))
            elif isinstance(item, Mapping | list):
                found.extend(as_messages(item, role))
            elif item is not None:
                found.append({"role": role, "content": as_text(item)})
        return found
    return [] if value in (None, "") else [{"role": role, "content": as_text(value)}]


def unwrap(value: Json) -> Json:
    value = parse(value)
    if isinstance(value, Mapping) and set(value) == {"input"}:
        inner = parse(value["input"])
        return inner if isinstance(inner, Mapping) else value
    return value


def plain(value: Json) -> str:
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
                return plain(value[member])
    if isinstance(value, list) and value and all(is_message(item) for item in value):
        log = Log()
        read_messages(log, value, "messages")
        return log.task or log.transcript().steps[-1]["observation"]
    return as_text(value)


def read_object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def read_list(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list) else []


def read_objects(value: Json) -> list[Mapping[str, Json]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
