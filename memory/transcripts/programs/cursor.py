"""Cursor: `~/.cursor/projects/*/agent-transcripts/*.jsonl`, and `cursor-agent --output-format stream-json`."""

from collections.abc import Mapping

from ..harness import find_inside, typed_text
from ..items import Items, get, mapping, members, number, read_each, text, times
from ..log import Json, Log, Transcript, as_text, read_arguments
from ..messages import read_or_leave_out
from .reader import Reader

_SILENT = ("system", "result", "turn_ended", "thinking")


def owns(line: Mapping[str, Json]) -> bool:
    if line.get("type") == "tool_call":
        return isinstance(line.get("tool_call"), Mapping) and "subtype" in line
    is_message = "role" in line and isinstance(line.get("message"), Mapping) and "content" in line["message"]
    return is_message and "sessionId" not in line and "uuid" not in line


def read(items: Items) -> list[Transcript]:
    """Return the session. Its own transcripts have no results, those of `cursor-agent` have."""
    log = Log(keeps_going=True)
    read_each(log, items, _read_line)
    start = next((line for _, line in items if line.get("type") == "system"), {})
    return [
        log.transcript(
            format="cursor",
            external_id=next((id for _, line in items if (id := text(line, "session_id"))), ""),
            agent="cursor",
            model=text(start, "model") or log.model,
            metadata=members(start, "cwd"),
            **times(items, "timestamp_ms"),
        )
    ]


def find_prompt(line: Mapping[str, Json]) -> str:
    """Return what a person wrote in a line, "" where it is no prompt."""
    if (line.get("role") or line.get("type")) != "user":
        return ""
    typed = typed_text(get(line, "message", "content"))
    query = find_inside("user_query", typed)
    return typed if query is None else query.strip()


def _read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
    role, message = line.get("role") or line.get("type"), mapping(line, "message")
    if role == "tool_call":
        _read_call(log, line, where)
    elif role == "user" and isinstance(message.get("content"), str | list):
        for place, block in number(message["content"], f"{where}.content"):
            if block.get("type") == "tool_result":
                read_or_leave_out(log, {"role": "user", "content": [block]}, place)
        if prompt := find_prompt(line):
            log.hear(prompt)
    elif role == "assistant":
        read_or_leave_out(log, {"role": "assistant"} | members(message, "content", "model"), where)
    elif role not in _SILENT:
        return False
    return None


def _read_call(log: Log, line: Mapping[str, Json], where: str) -> None:
    """Read a call, which is written when it starts and again when it ends: `{"readToolCall": {"args", "result"}}`."""
    kind, call = next(iter(mapping(line, "tool_call").items()), ("tool", {}))
    id, name = text(line, "call_id"), kind.removesuffix("ToolCall")
    given = get(call, "args")
    if kind == "function":
        name, given = text(call, "name") or "tool", get(call, "arguments")
    if line.get("subtype") == "started" or not log.has_called(id):
        log.call(name or "tool", read_arguments(given, where), id=id)
    result = mapping(call, "result")
    if line.get("subtype") == "completed":
        error = result.get("error") or result.get("rejected") or result.get("failure")
        told = error or result.get("success", result)
        said = text(told, "content") or text(told, "stdout") or text(told, "errorMessage") or as_text(told)
        log.result(said, id=id, failed=bool(error) or get(told, "exitCode") not in (None, 0))


READER = Reader(name="Cursor", owns=owns, read=read, expects="lines with role and message")
