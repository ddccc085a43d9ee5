"""Tell which format a log is in, and read its runs."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .chat import INSTRUCTION_ROLES, SYSTEM_MEMBERS, read_instructions
from .items import Item, get, mapping, once, text
from .log import Json, Log, Transcript, UnreadableTranscript, as_text, count_tokens, parse, to_number
from .messages import is_message, read_messages
from .opentelemetry import spans_of_console, spans_of_otlp
from .programs import Reader, find_document_reader, find_reader
from .sessions import read_adk, read_agentdojo, read_crewai, read_swe_agent, read_tau2_bench, read_tau_bench
from .tracers import spans_of_agents_sdk, spans_of_langfuse, spans_of_langsmith, transcripts_of_langfuse
from .traces import transcripts_of

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
_WRITER_MEMBERS = ("schema_version", "producer", "cli_version", "cliVersion", "copilotVersion", "version")
_DECODER, _SPACE = json.JSONDecoder(), re.compile(r"\s*")
MAX_PROBLEMS = 3  # of a log of which nothing is read; more are one
NEUTRAL_MEMBERS = frozenset({"task", "steps", "step_count", "external_id", "outcome"})


@dataclass(kw_only=True, slots=True)
class LogReading:
    """What a log was taken for, its runs, and the entries that could not be read, each with place and reason.

    `own` holds runs in the form of `POST /api/v1/trajectories`, which the API checks itself. `faults` says what is
    wrong with messages that somebody sent as such; the runs lack only these and name them.
    """

    format: str = ""
    counted: str = ""
    transcripts: list[Transcript] = field(default_factory=list)
    own: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Say it in a line, such as "Langfuse: 3 observations, 1 run"."""
        runs = len(self.transcripts) + len(self.own)
        counted = f"{self.counted}, " if self.counted else ""
        return f"{self.format}: {counted}{runs} run{'' if runs == 1 else 's'}"


def read_document(document: Json) -> LogReading:
    """Read a parsed log.

    Raises UnreadableTranscript, with place and reason, when it is in no known format or nothing in it is a run.
    """
    if isinstance(document, list):
        return read_lines([(f"entry {number}", value) for number, value in enumerate(document, start=1)])
    if isinstance(document, Mapping):
        return _read_object(document)
    raise UnreadableTranscript("The log must be a JSON object or a list.")


def read_lines(lines: Sequence[tuple[str, Json]]) -> LogReading:
    """Read the values of a list or of JSON Lines, each behind its place. Raises UnreadableTranscript as above."""
    return _read_list(lines)


def _read_object(document: Mapping[str, Json]) -> LogReading:
    if reader := find_document_reader(document):
        return _read_program(reader, [("entry 1", document)])
    for name, matches, read in _OBJECTS:
        if matches(document):
            found = read(document)
            runs = found if isinstance(found, list) else [found]
            return LogReading(format=name, transcripts=runs)
    if "resourceSpans" in document or "resource_spans" in document:
        return _read_otlp([document])
    if isinstance(document.get("trace"), Mapping) and isinstance(document.get("observations"), list):
        return _read_langfuse_traces([_joined_download(document)])
    if isinstance(document.get("observations"), list) and "id" in document:
        return _read_langfuse_traces([document])
    if "run_type" in document:
        return _read_langsmith([document])
    if find_reader([("entry 1", document)]):
        return _read_list([("entry 1", document)])
    if NEUTRAL_MEMBERS & set(document) and not ("steps" not in document and _messages_in(document)):
        return LogReading(format="ERL", own=[("entry 1", document)])
    if (talk := _messages_in(document)) is not None:
        return _read_messages(document, *talk)
    for member in _LIST_MEMBERS:
        if isinstance(document.get(member), list):
            return _read_list([(f"entry {n}", value) for n, value in enumerate(document[member], start=1)])
    if {"trigger", "guideline", "content_sha256"} <= document.keys():
        raise UnreadableTranscript("This is a lesson, not a run. Read the file with manage.py import_memory.")
    if {"global_rules", "episode_log"} & document.keys():
        raise UnreadableTranscript("This is an agent's memory file. Read it with manage.py import_memory.")
    if "verifier_result" in document:
        raise UnreadableTranscript("This is the result of a Harbor trial; its run is in agent/trajectory.json.")
    known = ", ".join(sorted(str(name)[:40] for name in document)[:8])
    raise UnreadableTranscript(
        f"This is not in a known format: an object with the members {known or '(none)'}"
        f"{_writer_of([document])}. Send messages, a trace export, a session file, or an object with task and steps."
    )


def _writer_of(documents: Sequence[Mapping[str, Json]]) -> str:
    """Say what a log says of the program that wrote it, for a person whose log is not read."""
    for document in documents[:20]:
        for part in (document, mapping(document, "payload"), mapping(document, "data"), mapping(document, "info")):
            said = [
                f"{name} {text(part, name)[:60]}" for name in _WRITER_MEMBERS if isinstance(part.get(name), str | int)
            ]
            if said:
                return f"; it says {', '.join(said[:3])}"
    return ""


def _read_program(reader: Reader, items: Sequence[Item]) -> LogReading:
    """Read the log of a program. Raises UnreadableTranscript if nothing in it is a run."""
    runs = [run for run in reader.read(once(items)) if run.steps or run.task]
    if not runs:
        kinds = sorted({text(item, "type")[:40] or text(item, "kind")[:40] for _, item in items} - {""})
        raise UnreadableTranscript(
            f"{reader.name} wrote this{_writer_of([item for _, item in items])}, but nothing in it can be read. "
            f"Expected: {reader.expects}. Found: {', '.join(kinds[:8]) or 'nothing with a type'}."
        )
    counted = "" if reader.is_document else f"{len(items)} {reader.unit}{'' if len(items) == 1 else 's'}"
    name = reader.names.get(runs[0].format, reader.name)
    return LogReading(format=name, counted=counted, transcripts=runs)


def _read_list(lines: Sequence[tuple[str, Json]]) -> LogReading:
    if not lines:
        raise UnreadableTranscript("The log is empty.")
    objects = [(place, item) for place, item in lines if isinstance(item, Mapping)]
    values = [value for _, value in lines]
    if not objects and all(isinstance(item, list) and item for item in values):
        return _read_each(lines)  # conversations
    if not objects:
        raise UnreadableTranscript("The log must be a list of runs or of messages.")
    if reader := find_reader(objects):
        reading = _read_program(reader, objects)
        odd = [f"{place}: not an object" for place, item in lines if not isinstance(item, Mapping)]
        reading.transcripts[0].left_out += odd
        return reading
    found = [item for _, item in objects]
    if any("resourceSpans" in item or "resource_spans" in item for item in found):
        return _read_otlp(found)
    if is_message(parse(values[0])) or sum(is_message(parse(value)) for value in values) * 2 > len(values):
        return _read_messages({}, "messages", values)
    if all(item.get("object") in ("trace", "trace.span") for item in found):
        return _traced("OpenAI Agents SDK", spans_of_agents_sdk(found), "openai-agents")
    if all("run_type" in item for item in found):
        return _read_langsmith(found)
    if all(isinstance(item.get("observations"), list) and "id" in item for item in found):
        return _read_langfuse_traces(found)
    if all(
        ("traceId" in item or "trace_id" in item) and as_text(item.get("type")).upper() in _LANGFUSE_TYPES
        for item in found
    ):
        return _traced("Langfuse", spans_of_langfuse(found), "langfuse", "observation")
    if all(isinstance(item.get("context"), Mapping) and "trace_id" in item["context"] for item in found):
        return _traced("OpenTelemetry", spans_of_console(found), "otel")
    if all("task_name" in item and "agent" in item for item in found):
        return LogReading(format="CrewAI", counted=f"{len(found)} entries", transcripts=[read_crewai(found)])
    return _read_each(lines)


def _joined_download(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return a trace with its observations, from a download of Langfuse that may hold them twice."""
    trace = document["trace"]
    both = [*document["observations"], *(trace["observations"] if isinstance(trace.get("observations"), list) else [])]
    observations = {text(item, "id"): item for item in reversed(both) if isinstance(item, Mapping)}
    return {**trace, "observations": [*reversed(observations.values())]}


def _read_each(lines: Sequence[tuple[str, Json]]) -> LogReading:
    """Read a list whose entries are runs, each in a format of its own."""
    whole = LogReading()
    for place, item in lines:
        try:
            one = read_document(parse(item))
        except UnreadableTranscript as error:
            whole.problems.append((place, str(error)))
            continue
        whole.format = whole.format or one.format
        whole.transcripts += one.transcripts
        whole.own += [(place, run) for _, run in one.own]
        whole.faults += one.faults
        whole.problems += [(f"{place}, {where}", reason) for where, reason in one.problems]
    if not whole.transcripts and not whole.own:
        reasons = {reason for _, reason in whole.problems}
        same = len(whole.problems) > 1 and len(reasons) == 1
        if len(whole.problems) == 1 or same or len(whole.problems) > MAX_PROBLEMS:
            every = (
                f"None of the {len(whole.problems)} entries is a run. The first: " if len(whole.problems) > 1 else ""
            )
            raise UnreadableTranscript(f"{every}{whole.problems[0][1]}")
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
    parts = [part for trace in traces for part in (trace, *(trace.get("observations") or ()))]
    if not any(get(part, name) not in (None, "") for part in parts for name in ("input", "output")):
        raise UnreadableTranscript(
            "Langfuse: there is nothing to read, since no observation has an input or an output. "
            "Export it through Langfuse's API."
        )
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


def _read_messages(document: Mapping[str, Json], member: str, messages: Sequence[Json]) -> LogReading:
    log = Log(keeps_going=True)
    where = "" if not document else member
    read_instructions(log, document.get("request"), "request")
    read_instructions(log, document, "")
    read_messages(log, [parse(message) for message in messages], where or "messages")
    if log.faults and not log.steps and not log.task:
        raise UnreadableTranscript(log.faults[0])
    known: dict[str, Any] = {"format": _name_messages(messages)}
    for name in (
        "task",
        "task_id",
        "agent",
        "user_id",
        "model",
        "external_id",
        "outcome",
        "outcome_source",
        "started_at",
        "ended_at",
    ):
        if isinstance(document.get(name), str) and document[name]:
            known[name] = document[name]
    # The API takes both names of the task family.
    family = document.get("family")
    if isinstance(family, str) and known.setdefault("task_id", family) == family:
        document = {name: value for name, value in document.items() if name != "family"}
    if isinstance(document.get("id"), str | int) and "external_id" not in known:
        known["external_id"] = str(document["id"])
    for part in (document.get("response"), document.get("request"), document):
        if not isinstance(part, Mapping):
            continue
        known["model"] = known.get("model") or as_text(part.get("model"))
        known["tokens"] = known.get("tokens") or count_tokens(part.get("usage"))
        if isinstance(part.get("tools"), list):
            known["tools"] = known.get("tools") or part["tools"]
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
        *SYSTEM_MEMBERS,
        "usage",
    }
    metadata = document.get("metadata")
    kept = {
        name: value for name, value in document.items() if name not in read and name != "metadata" and value is not None
    }
    known["metadata"] = {**kept, **(metadata if isinstance(metadata, Mapping) else {})}
    return LogReading(format=known["format"], transcripts=[log.transcript(**known)], faults=log.faults)


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


def stands_alone(line: Json) -> bool:
    """Tell whether a line of JSON Lines is a run by itself, rather than a part of a session or a trace."""
    if not isinstance(line, Mapping):
        return isinstance(line, list)
    if find_reader([("", line)]) or "run_type" in line or is_message(line):
        return False
    is_known = any(matches(line) for _, matches, _ in _OBJECTS) or find_document_reader(line) is not None
    return is_known or bool(NEUTRAL_MEMBERS & set(line)) or _messages_in(line) is not None or "observations" in line


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
    lines, problems = number_lines(text)
    return [value for _, value in lines], problems


def number_lines(text: str) -> tuple[list[tuple[str, Json]], list[tuple[str, str]]]:
    """Return the values of JSON Lines and the lines that are not JSON, each with its place."""
    values, problems = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                values += [(f"line {number}", value) for value in split_line(line)]
            except (ValueError, RecursionError) as error:
                problems.append((f"line {number}", describe_json_fault(error)))
    return values, problems


def split_line(line: str) -> list[Json]:
    """Return the value of a line, or the objects: between two that were written at once the end of a line may lack."""
    try:
        return [json.loads(line)]
    except json.JSONDecodeError as error:
        values, at = [], 0
        while error.msg == "Extra data" and at < len(line):
            value, end = _DECODER.raw_decode(line, at)
            values.append(value)
            at = _SPACE.match(line, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        if not values or not all(isinstance(value, dict) for value in values):
            raise
        return values


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
    (
        "tau²-bench",
        lambda d: isinstance(d.get("messages"), list) and {"reward_info", "termination_reason"} <= set(d),
        lambda d: read_tau2_bench({"simulations": [d]}),
    ),
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
