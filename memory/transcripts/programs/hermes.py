"""Hermes Agent: exported sessions, `{session, messages}` or `{id, source, …, messages}`, and its training samples."""

import re
from collections.abc import Mapping

from ..items import Items, mapping, members, number, number_all, read_each, text, times
from ..log import Json, Log, Transcript, parse, to_count, to_number
from ..messages import read_or_leave_out
from .reader import Reader

_MARKS = ("system_prompt", "started_at", "message_count", "end_reason", "billing_provider")
_KEPT = ("role", "content", "tool_calls", "tool_call_id", "timestamp")
_TAG = re.compile(r"<(tool_call|tool_response|think)>")
_ROLES = {"human": "user", "gpt": "assistant", "tool": "tool", "system": "system"}


def owns(document: Mapping[str, Json]) -> bool:
    if isinstance(document.get("conversations"), list):
        return all("from" in turn and "value" in turn for _, turn in number(document["conversations"], ""))
    about = mapping(document, "session") or document
    return isinstance(document.get("messages"), list) and "source" in about and any(name in about for name in _MARKS)


def owns_row(row: Mapping[str, Json]) -> bool:
    return "session_id" in row and "role" in row and bool({"observed", "active", "finish_reason"} & row.keys())


def read_rows(items: Items) -> list[Transcript]:
    """Return the sessions in a list of rows of the table of messages."""
    sessions: dict[str, list[Mapping[str, Json]]] = {}
    for _, row in items:
        sessions.setdefault(text(row, "session_id") or next(iter(sessions), ""), []).append(row)
    return [_read_session({"session": {"id": id}, "messages": rows}) for id, rows in sessions.items()]


def read(items: Items) -> list[Transcript]:
    return [_read_sample(item) if "conversations" in item else _read_session(item) for _, item in items]


def _read_session(document: Mapping[str, Json]) -> Transcript:
    about, log = mapping(document, "session") or document, Log(keeps_going=True)
    messages = number_all(document.get("messages"), "messages")
    # A message that was summarised away is inactive, too, and was part of the work all the same.
    live = [m for m in messages if m[1].get("active") not in (0, False) or m[1].get("compacted")]
    if len(live) < len(messages):
        log.leave_out("messages", f"{len(messages) - len(live)} that were undone")
    log.instruct(text(about, "system_prompt"))
    read_each(log, live, _read_message)
    return log.transcript(
        format="hermes",
        external_id=text(about, "id"),
        parent_id=text(about, "parent_session_id"),
        agent="hermes",
        model=text(about, "model"),
        tokens=sum(to_count(about.get(name)) for name in ("input_tokens", "output_tokens")) or None,
        cost_usd=to_number(about.get("actual_cost_usd")) or to_number(about.get("estimated_cost_usd")),
        metadata=members(about, "cwd", "git_branch", "source", "title", "end_reason"),
        **times(live, "timestamp"),
    )


def _read_message(log: Log, message: Mapping[str, Json], where: str) -> bool | None:
    if message.get("role") not in ("user", "assistant", "tool", "system"):
        return None if message.get("role") == "session_meta" else False
    kept = {"content": None} | {name: message[name] for name in _KEPT if message.get(name) is not None}
    kept["tool_calls"] = parse(message.get("tool_calls") or [])
    kept |= members({"reasoning": message.get("reasoning") or message.get("reasoning_content")}, "reasoning")
    if message.get("role") == "tool":
        answer = mapping(message, "content")  # of the tool that runs commands
        failed = bool(answer.get("error") or (answer.get("exit_code") and "exit_code_meaning" not in answer))
        kept |= members({"name": message.get("tool_name"), "is_error": failed}, "name", "is_error")
    read_or_leave_out(log, kept, where)
    return None


def _read_sample(document: Mapping[str, Json]) -> Transcript:
    """Return a conversation whose thoughts, calls and results are elements of its texts."""
    log = Log(keeps_going=True)
    for where, turn in number(document["conversations"], "conversations"):
        role, value = _ROLES.get(text(turn, "from"), ""), text(turn, "value")
        calls: list[Json] = []
        while element := _TAG.search(value):
            inside, _, rest = value[element.end() :].partition(f"</{element[1]}>")
            value = value[: element.start()] + rest
            inside = inside.strip()
            if element[1] == "think":
                log.think(inside)
            elif element[1] == "tool_call":
                calls.append(parse(inside))
            else:
                answer = mapping(parse(inside))
                log.result(text(answer, "content") or inside, name=text(answer, "name"))  # the calls have no ids
        if role != "tool" and (value.strip() or calls):
            read_or_leave_out(log, {"role": role, "content": value.strip(), "tool_calls": calls}, where)
    return log.transcript(format="hermes", agent="hermes", model=text(document, "model"))


READER = Reader(name="Hermes", owns=owns, read=read, expects="an object with session and messages", is_document=True)
ROWS = Reader(name="Hermes", owns=owns_row, read=read_rows, expects="messages with session_id and role", unit="row")
