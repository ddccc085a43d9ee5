"""Tell which format a log is in, and read its runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .chat import INSTRUCTION_ROLES
from .log import Json, Log, Transcript, UnreadableTranscript, as_text, count_tokens, to_number
from .messages import is_message, read_messages
from .opentelemetry import spans_of_console, spans_of_otlp
from .sessions import (
    read_adk,
    read_agentdojo,
    read_claude_code,
    read_codex,
    read_crewai,
    read_swe_agent,
    read_tau2_bench,
    read_tau_bench,
)
from .tracers import spans_of_agents_sdk, spans_of_langfuse, spans_of_langsmith, transcripts_of_langfuse
from .traces import parse, transcripts_of

_LIST_MEMBERS = ("trajectories", "episodes", "runs", "results", "data", "sessions", "traces", "logs", "items")
_MESSAGE_MEMBERS = (
    "messages",
    "conversation",
    "chat_history",
    "history",
    "transcript",
    "input_list",
    "contents",
    "turns",
)
_LANGFUSE_TYPES = frozenset(
    {"GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)
NEUTRAL_MEMBERS = frozenset({"task", "steps", "step_count", "external_id", "outcome"})


@dataclass(kw_only=True, slots=True)
class LogReading:
    """What a log was taken for, its runs, and the entries that could not be read, each with place and reason.

    `own` holds runs in the form of `POST /api/v1/trajectories`, which the API checks itself.
    """

    format: str = ""
    counted: str = ""
    transcripts: list[Transcript] = field(default_factory=list)
    own: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def summary(self) -> str:
        """Say it in a line, such as "Langfuse: 3 observations, 1 run"."""
        runs = len(self.transcripts) + len(self.own)
        counted = f"{self.counted}, " if self.counted else ""
        return f"{self.format}: {counted}{runs} run{'' if runs == 1 else 's'}"


def read_document(document: Json) -> LogReading:
    """Read a parsed log. JSON Lines are read as the list of their lines.

    Raises UnreadableTranscript, with place and reason, when it is in no known format or not in the one it seems to be.
    """
    if isinstance(document, list):
        return _read_list(document)
    if isinstance(document, Mapping):
        return _read_object(document)
    raise UnreadableTranscript("The log must be a JSON object or a list.")


def _read_object(document: Mapping[str, Json]) -> LogReading:
    for name, matches, read in _OBJECTS:
        if matches(document):
            found = read(document)
            runs = found if isinstance(found, list) else [found]
            return LogReading(format=name, transcripts=runs)
    if "resourceSpans" in document or "resource_spans" in document:
        return _read_otlp([document])
    if isinstance(document.get("observations"), list) and "id" in document:
        return _read_langfuse_traces([document])
    if "run_type" in document:
        return _read_langsmith([document])
    if NEUTRAL_MEMBERS & set(document) and not ("steps" not in document and _messages_in(document)):
        return LogReading(format="ERL", own=[("entry 1", document)])
    if (talk := _messages_in(document)) is not None:
        return LogReading(format=_name_messages(talk[1]), transcripts=[_read_messages(document, *talk)])
    for member in _LIST_MEMBERS:
        if isinstance(document.get(member), list):
            return _read_list(document[member])
    if {"trigger", "guideline", "content_sha256"} <= document.keys():
        raise UnreadableTranscript("This is a lesson, not a run. Read the file with manage.py import_memory.")
    if {"global_rules", "episode_log"} & document.keys():
        raise UnreadableTranscript("This is an agent's memory file. Read it with manage.py import_memory.")
    known = ", ".join(sorted(str(name)[:40] for name in document)[:8])
    raise UnreadableTranscript(
        f"This is in no format that is known here: an object with the members {known or '(none)'}. Send messages, a "
        "trace export, a session file, or an object with task and steps."
    )


def _read_list(items: Sequence[Json]) -> LogReading:
    if not items:
        raise UnreadableTranscript("The log is empty.")
    objects = [item for item in items if isinstance(item, Mapping)]
    if not objects and all(isinstance(item, list) and item for item in items):
        return _read_each(items)  # conversations
    if not objects:
        raise UnreadableTranscript("The log must be a list of runs or of messages.")
    if any(("sessionId" in item or "session_id" in item) and "message" in item for item in objects):
        return LogReading(format="Claude Code", counted=f"{len(items)} lines", transcripts=read_claude_code(objects))
    if any(item.get("type") in ("session_meta", "response_item") for item in objects[:5]):
        return LogReading(format="Codex", counted=f"{len(items)} lines", transcripts=read_codex(objects))
    if any("resourceSpans" in item or "resource_spans" in item for item in objects):
        return _read_otlp(objects)
    if is_message(parse(items[0])):
        return LogReading(format=_name_messages(items), transcripts=[_read_messages({}, "messages", items)])
    if all(item.get("object") in ("trace", "trace.span") for item in objects):
        spans = spans_of_agents_sdk(objects)
        return _traced("OpenAI Agents SDK", spans, "openai-agents")
    if all("run_type" in item for item in objects):
        return _read_langsmith(objects)
    if all(isinstance(item.get("observations"), list) for item in objects):
        return _read_langfuse_traces(objects)
    if all(
        ("traceId" in item or "trace_id" in item) and as_text(item.get("type")).upper() in _LANGFUSE_TYPES
        for item in objects
    ):
        return _traced("Langfuse", spans_of_langfuse(objects), "langfuse", "observation")
    if all(isinstance(item.get("context"), Mapping) and "trace_id" in item["context"] for item in objects):
        return _traced("OpenTelemetry", spans_of_console(objects), "otel")
    if all("task_name" in item and "agent" in item for item in objects):
        return LogReading(format="CrewAI", counted=f"{len(items)} entries", transcripts=[read_crewai(objects)])
    return _read_each(items)


def _read_each(items: Sequence[Json]) -> LogReading:
    """Read a list whose entries are runs, each in a format of its own."""
    whole = LogReading()
    for number, item in enumerate(items, start=1):
        place = f"entry {number}"
        try:
            one = read_document(parse(item))
        except UnreadableTranscript as error:
            whole.problems.append((place, str(error)))
            continue
        whole.format = whole.format or one.format
        whole.transcripts += one.transcripts
        whole.own += [(place, run) for _, run in one.own]
        whole.problems += [(f"{place}, {where}", reason) for where, reason in one.problems]
    if not whole.transcripts and not whole.own and len(whole.problems) == 1:
        raise UnreadableTranscript(whole.problems[0][1])
    return whole


def _traced(name: str, spans: list[Any], short: str, unit: str = "span") -> LogReading:
    runs = transcripts_of(spans, format=short)
    return LogReading(format=name, counted=f"{len(spans)} {unit}{'' if len(spans) == 1 else 's'}", transcripts=runs)


def _read_otlp(requests: Sequence[Mapping[str, Json]]) -> LogReading:
    spans = [span for request in requests for span in spans_of_otlp(request)]
    if not spans:
        raise UnreadableTranscript("resourceSpans holds no span.")
    return _traced("OpenTelemetry", spans, "otel")


def _read_langsmith(runs: Sequence[Mapping[str, Json]]) -> LogReading:
    return _traced("LangSmith", spans_of_langsmith(runs), "langsmith", "run")


def _read_langfuse_traces(traces: Sequence[Mapping[str, Json]]) -> LogReading:
    count = sum(len(trace.get("observations") or ()) for trace in traces)
    runs = transcripts_of_langfuse(traces)
    return LogReading(format="Langfuse", counted=f"{count} observation{'' if count == 1 else 's'}", transcripts=runs)


def _messages_in(document: Mapping[str, Json]) -> tuple[str, list[Json]] | None:
    """Find the messages of a logged call or conversation, with the answer to them."""
    request = document.get("request")
    if isinstance(request, Mapping) and (found := _messages_in(request)) is not None:
        return found[0], [*found[1], *_answer(document.get("response"))]
    for member in (*_MESSAGE_MEMBERS, "input"):
        messages = parse(document.get(member))
        if isinstance(messages, Mapping) and isinstance(messages.get("messages"), list):
            messages = messages["messages"]
        if isinstance(messages, list) and messages and is_message(messages[0]):
            answer = _answer(document.get("response") or document.get("output") or document.get("choices"))
            return member, [*messages, *answer]
    if document.get("object") == "response" and isinstance(document.get("output"), list):
        given = document.get("input")
        asked = [{"role": "user", "content": given}] if isinstance(given, str) else []
        return "output", [*asked, *document["output"]]
    if (
        isinstance(document.get("input"), str)
        and isinstance(document.get("output"), list)
        and all(is_message(i) for i in document["output"])
    ):
        return "output", [{"role": "user", "content": document["input"]}, *document["output"]]
    return None


def _answer(response: Json) -> list[Json]:
    response = parse(response)
    if isinstance(response, Mapping):
        for member in ("choices", "output", "candidates"):
            if isinstance(response.get(member), list):
                return _answer(response[member])
        return [response] if is_message(response) else []
    if isinstance(response, list):
        found = []
        for item in response:
            if is_message(item):
                found.append(item)
            elif isinstance(item, Mapping):
                message = item.get("message", item.get("content"))
                found += [message] if is_message(message) else []
        return found
    return []


def _read_messages(document: Mapping[str, Json], member: str, messages: Sequence[Json]) -> Transcript:
    log = Log()
    where = "" if not document else member
    read_messages(log, [parse(message) for message in messages], where or "messages")
    known: dict[str, Any] = {"format": _name_messages(messages)}
    for name in (
        "task",
        "task_id",
        "agent",
        "model",
        "external_id",
        "outcome",
        "outcome_source",
        "started_at",
        "ended_at",
    ):
        if isinstance(document.get(name), str) and document[name]:
            known[name] = document[name]
    if isinstance(document.get("id"), str | int) and "external_id" not in known:
        known["external_id"] = str(document["id"])
    for part in (document.get("response"), document.get("request"), document):
        if not isinstance(part, Mapping):
            continue
        known["model"] = known.get("model") or as_text(part.get("model"))
        known["tokens"] = known.get("tokens") or count_tokens(part.get("usage"))
        if isinstance(part.get("tools"), list):
            known["tools"] = known.get("tools") or _tools(part["tools"])
    if isinstance(document.get("tokens"), int):
        known["tokens"] = document["tokens"]
    score = to_number(document.get("score", document.get("reward")))
    if score is not None and 0 <= score <= 1:
        known["score"] = score
    read = {
        *known,
        *_MESSAGE_MEMBERS,
        "input",
        "output",
        "choices",
        "request",
        "response",
        "id",
        "object",
        "reward",
        "system",
        "instructions",
        "usage",
    }
    metadata = document.get("metadata")
    kept = {
        name: value for name, value in document.items() if name not in read and name != "metadata" and value is not None
    }
    known["metadata"] = {**kept, **(metadata if isinstance(metadata, Mapping) else {})}
    return log.transcript(**known)


def _tools(tools: Sequence[Json]) -> list[Json]:
    """Return the definitions one by one: Gemini puts several into an entry."""
    found: list[Json] = []
    for tool in tools:
        known = tool if isinstance(tool, Mapping) else {}
        inner = known.get("functionDeclarations", known.get("function_declarations"))
        found += inner if isinstance(inner, list) else [tool]
    return found


def _name_messages(messages: Sequence[Json]) -> str:
    """Name the framework whose messages these look like."""
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        content = message.get("content")
        kinds = (
            {as_text(part.get("type")) for part in content if isinstance(part, Mapping)}
            if isinstance(content, list)
            else set()
        )
        if "lc" in message or (
            message.get("type") in ("human", "ai", "HumanMessage", "AIMessage") and "role" not in message
        ):
            return "LangChain"
        if message.get("kind") in ("request", "response"):
            return "pydantic-ai"
        if kinds & {"tool_use", "tool_result", "thinking", "redacted_thinking"}:
            return "Anthropic"
        if isinstance(message.get("parts"), list):
            return "Gemini"
        if message.get("type") in ("function_call", "function_call_output", "reasoning") or kinds & {
            "input_text",
            "output_text",
        }:
            return "OpenAI Responses"
        if message.get("role") not in INSTRUCTION_ROLES and message.get("tool_calls"):
            return "OpenAI chat"
    return "chat messages"


def is_part_of_a_whole(line: Json) -> bool:
    """Tell whether a line of JSON Lines is a part of a session, trace or conversation rather than a run by itself."""
    if not isinstance(line, Mapping):
        return False
    if (
        is_message(line)
        or "sessionId" in line
        or line.get("type") in ("session_meta", "response_item", "summary", "file-history-snapshot")
    ):
        return True
    if "resourceSpans" in line or "run_type" in line or line.get("object") in ("trace", "trace.span"):
        return True
    return (
        "task_name" in line
        or "traceId" in line
        or (isinstance(line.get("context"), Mapping) and "trace_id" in line["context"])
    )


def look_up(document: Json, path: str) -> Json:
    """Return what a dotted path names in a log, such as `metadata.reward` or `scores.0.value`; None where it is not."""
    for key in path.split("."):
        document = parse(document)
        if isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(document, list) and key.isdecimal() and int(key) < len(document):
            document = document[int(key)]
        else:
            return None
    return document


def parse_lines(text: str) -> tuple[list[Json], list[tuple[str, str]]]:
    """Return the values of JSON Lines, and the lines that are not JSON with the reason."""
    values, problems = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                problems.append((f"line {number}", describe_json_fault(error)))
    return values, problems


def describe_json_fault(error: Exception) -> str:
    """Say why a text is not read as JSON, from what `json.loads` raised."""
    if isinstance(error, json.JSONDecodeError):
        return f"This is not JSON: {error}"
    return (
        "This is nested too deeply." if isinstance(error, RecursionError) else "A number in this has too many digits."
    )


_Test = Callable[[Mapping[str, Json]], bool]
_Read = Callable[[Mapping[str, Json]], Transcript | list[Transcript]]
_OBJECTS: tuple[tuple[str, _Test, _Read], ...] = (
    ("tau²-bench", lambda d: isinstance(d.get("simulations"), list), read_tau2_bench),
    ("tau-bench", lambda d: "traj" in d, read_tau_bench),
    (
        "SWE-agent",
        lambda d: isinstance(d.get("trajectory"), list) and bool({"info", "history", "environment"} & set(d)),
        read_swe_agent,
    ),
    ("AgentDojo", lambda d: "suite_name" in d and "user_task_id" in d, read_agentdojo),
    (
        "ADK",
        lambda d: isinstance(d.get("events"), list) and bool({"appName", "app_name", "userId", "user_id"} & set(d)),
        read_adk,
    ),
)
