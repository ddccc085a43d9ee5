"""OpenCode: what `opencode export` writes, an object with `info` and `messages` of parts."""

from collections.abc import Mapping

from ..items import Items, content, get, mapping, members, number, read_each, text
from ..log import Json, Log, Transcript, as_text, read_arguments, to_number
from .live_sessions import OPENCODE_NOTES, OPENCODE_SILENT, find_opencode_messages, is_of_person
from .reader import Reader


def owns(document: Mapping[str, Json]) -> bool:
    messages = number(document.get("messages"), "messages")
    is_first = any("info" in message and "parts" in message for _, message in messages)
    is_second = any("type" in message and "time" in message for _, message in messages)
    return isinstance(document.get("info"), Mapping) and (is_first or is_second)


def read(items: Items) -> list[Transcript]:
    return [_read_session(document) for _, document in items]


def _read_session(document: Mapping[str, Json]) -> Transcript:
    info, log = mapping(document, "info"), Log(keeps_going=True)
    live, taken_back = find_opencode_messages(document)
    if taken_back:
        log.leave_out("messages", f"{taken_back} that were undone")
    read_each(log, live, _read_message)
    costs = [cost for _, message in live if (cost := to_number(get(message, "info", "cost")))]
    return log.transcript(
        format="opencode",
        external_id=text(info, "id"),
        parent_id=text(info, "parentID"),
        agent="opencode",
        cost_usd=sum(costs) or None,
        started_at=get(info, "time", "created") or "",
        ended_at=get(info, "time", "updated") or "",
        metadata=members(info, "directory", "version", "title") | members(mapping(info, "location"), "directory"),
    )


def _read_message(log: Log, message: Mapping[str, Json], where: str) -> bool | None:
    info = mapping(message, "info")
    role = info.get("role")
    parts = number(message.get("parts"), f"{where}.parts")
    if role == "user":
        told = [content(log, [part], place) for place, part in parts if is_of_person(part)]
        log.hear("\n".join(told))
        return None
    if role != "assistant":
        return None if role in OPENCODE_NOTES else False
    log.use(model=info.get("modelID"), usage=info.get("tokens"))
    read_each(log, parts, _read_part)
    if error := mapping(info, "error"):
        log.fail(text(error, "data", "message") or text(error, "message") or text(error, "name") or as_text(error))
    log.end_turn()
    return None


def _read_part(log: Log, part: Mapping[str, Json], where: str) -> bool | None:
    kind, state = part.get("type"), mapping(part, "state")
    if kind == "text":
        log.say(text(part, "text"))
    elif kind == "reasoning":
        log.think(text(part, "text"))
    elif kind == "tool":
        log.call(text(part, "tool") or "tool", read_arguments(state.get("input"), where), id=text(part, "callID"))
        if state.get("status") in ("completed", "error"):
            told = text(state, "error" if state["status"] == "error" else "output")
            failed = state["status"] == "error" or get(state, "metadata", "exit") not in (None, 0)
            log.result(told, id=text(part, "callID"), failed=failed)
    elif kind in ("file", "subtask"):
        log.say(content(log, [part], where))
    elif kind == "retry":
        log.fail(text(part, "error", "data", "message"))
    return None if kind in ("text", "reasoning", "tool", "file", "subtask", "retry", *OPENCODE_SILENT) else False


READER = Reader(
    name="OpenCode",
    owns=owns,
    read=read,
    expects="an object with info, and messages that have info and parts",
    is_document=True,
)
