"""Goose: `~/.local/share/goose/sessions/*.jsonl`, which versions before 1.10 wrote."""

from collections.abc import Mapping

from ..harness import typed_text
from ..items import Items, content, get, mapping, members, number_all, read_each, text, times
from ..log import Json, Log, Transcript, read_arguments, to_count
from .reader import Reader

_CALLS = ("toolRequest", "frontendToolRequest")
_ASKS = ("toolConfirmationRequest", "actionRequired")
_SILENT = (*_ASKS, "systemNotification", "summarizationRequested", "conversationCompacted")
_OWN = frozenset({*_CALLS, *_SILENT, "toolResponse", "redactedThinking", "contextLengthExceeded"})
_ERROR = "Ran into this error: "  # an error of the provider, which Goose tells in the name of the agent


def owns(line: Mapping[str, Json]) -> bool:
    parts = line.get("content")
    has_own = isinstance(parts, list) and any(text(part, "type") in _OWN for part in parts)
    is_about = "message_count" in line and ("working_dir" in line or "description" in line)
    return is_about or has_own or "agentVisible" in mapping(line, "metadata")


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    read_each(log, items, _read_line)
    about = next((line for _, line in items if "message_count" in line), {})
    return [
        log.transcript(
            format="goose",
            agent="goose",
            tokens=to_count(about.get("accumulated_total_tokens")) or to_count(about.get("total_tokens")) or None,
            metadata=members(about, "working_dir", "description", "schedule_id"),
            **times(items, "created"),
        )
    ]


def _read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
    role, parts = line.get("role"), number_all(line.get("content"), f"{where}.content")
    if role not in ("user", "assistant"):
        return None if "message_count" in line else False
    if get(line, "metadata", "userVisible") is False:  # a summary, or what else Goose tells the model
        log.leave_out(where, "the text of a message that Goose added")
        parts = [(place, part) for place, part in parts if text(part, "type") in _OWN]
    read_each(log, parts, _read_heard if role == "user" else _read_part)
    return None


def _read_heard(log: Log, part: Mapping[str, Json], where: str) -> bool | None:
    if part.get("type") not in ("text", "image"):
        return _read_part(log, part, where)
    if said := typed_text([part]) if "text" in part else _tell(log, part, where):
        log.hear(said)
    return None


def _read_part(log: Log, part: Mapping[str, Json], where: str) -> bool | None:
    kind = part.get("type")
    if kind in ("text", "image"):
        said = _tell(log, part, where)
        (log.fail if said.startswith(_ERROR) else log.say)(said)
    elif kind == "thinking":
        log.think(text(part, "thinking"))
    elif kind == "redactedThinking":
        log.leave_out(where, "a thought that the provider encrypted")
    elif kind in _CALLS:
        if call := mapping(part, "toolCall", "value"):
            log.call(text(call, "name") or "tool", read_arguments(call.get("arguments"), where), id=text(part, "id"))
        else:  # its result says why
            log.leave_out(where, "a call that Goose could not read")
    elif kind == "toolResponse":
        answer = mapping(part, "toolResult")
        value = answer.get("value")  # a list, or later an object with `content`
        parts = number_all(get(value, "content") if isinstance(value, Mapping) else value, where)
        told = "\n".join(filter(None, (_tell(log, part, place) for place, part in parts)))
        told = told or text(answer, "error") or text(value, "structuredContent")
        failed = answer.get("status") == "error" or get(value, "isError") is True
        log.result(told, id=text(part, "id"), failed=failed)
    elif kind == "contextLengthExceeded":
        log.fail(text(part, "msg"))
    else:
        return None if kind in _SILENT else False
    return None


def _tell(log: Log, part: Mapping[str, Json], where: str) -> str:
    """Return what the model reads of a part of MCP. Tools say the same again for the person."""
    file, audience = mapping(part, "resource") or part, get(part, "annotations", "audience")
    if isinstance(audience, list) and "assistant" not in audience:
        return ""
    held = {"data": file.get("data") or file.get("blob"), "mimeType": file.get("mimeType"), "url": file.get("uri")}
    return text(file, "text") or content(log, [{"type": part.get("type"), "file": held}], where)


READER = Reader(name="Goose", owns=owns, read=read, expects="messages with role, created and content")
