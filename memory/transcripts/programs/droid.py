"""Droid of Factory: `~/.factory/sessions/**/*.jsonl`, and what `droid exec --output-format stream-json` prints."""

from collections.abc import Mapping

from ..harness import is_added_by_harness, typed_text
from ..items import Items, content, get, mapping, members, read_each, text, times
from ..log import Json, Log, Transcript, read_arguments
from ..messages import read_or_leave_out
from .reader import Reader

_SILENT = ("session_start", "session_end", "todo_state", "compaction_state", "system", "completion", "session_settings")


def owns(line: Mapping[str, Json]) -> bool:
    kind, message = line.get("type"), mapping(line, "message")
    if kind == "message":
        is_stored = message.get("role") in ("user", "assistant") and not {"api", "toolCallId"} & message.keys()
        return is_stored or ("role" in line and "text" in line)
    return kind in ("session_start", "todo_state") or (kind in ("tool_call", "tool_result") and "toolId" in line)


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    read_each(log, items, _read_line)
    start = next((line for _, line in items if line.get("type") in ("session_start", "system")), {})
    if not log.task and (title := text(start, "title")) and log.steps:
        log.task = title
    return [
        log.transcript(
            format="droid",
            external_id=text(start, "id") or text(start, "session_id"),
            agent="droid",
            parent_id=text(start, "parent") or text(start, "parentSessionId"),
            model=text(start, "model") or log.model,
            tools=start.get("tools"),
            metadata=members(start, "cwd", "version", "title"),
            **times(items, "timestamp"),
        )
    ]


def _read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
    kind, message = line.get("type"), mapping(line, "message")
    if kind == "message" and message:
        role = message.get("role")
        blocks = _with_failures(message.get("content"))
        is_hidden = message.get("visibility") == "llm_only" or not typed_text(blocks)
        if role == "user" and not _has_results(blocks) and is_hidden:
            return None
        read_or_leave_out(log, {"role": role, "content": blocks} | members(message, "model"), where)
    elif kind == "message" and line.get("role") == "user":
        if not is_added_by_harness({"role": "user", "content": line.get("text")}):
            log.hear(content(log, line.get("text"), where))
    elif kind == "message" and line.get("role") == "assistant":
        log.say(text(line, "text"))
    elif kind == "tool_call":
        name = text(line, "toolName") or text(line, "toolId") or "tool"
        log.call(name, read_arguments(line.get("parameters"), where), id=text(line, "id"))
    elif kind == "tool_result":
        told = get(line, "error", "message") or line.get("error") or line.get("value", line.get("result"))
        log.result(
            content(log, told, where), id=text(line, "id"), failed=bool(line.get("isError") or line.get("error"))
        )
    elif kind == "error":
        log.fail(text(line, "message"))
    elif kind not in _SILENT:
        return False
    return None


def _with_failures(blocks: Json) -> Json:
    """Return the blocks of a message. That a command failed stands in its output alone."""
    if not isinstance(blocks, list):
        return blocks
    failed = [text(block, "content").startswith("Error: Command failed (exit code") for block in blocks]
    return [{**block, "is_error": True} if fails else block for block, fails in zip(blocks, failed, strict=True)]


def _has_results(blocks: Json) -> bool:
    return isinstance(blocks, list) and any(text(block, "type") == "tool_result" for block in blocks)


READER = Reader(name="Droid", owns=owns, read=read, expects="lines of the type message with role and content")
