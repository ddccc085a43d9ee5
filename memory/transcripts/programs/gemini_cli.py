"""Gemini CLI: `~/.gemini/tmp/*/chats/session-*`, one JSON object until 2026, since then JSON Lines."""

from collections.abc import Mapping

from ..harness import is_added_by_harness
from ..items import Items, content, get, members, number, read_each, text, times
from ..log import Json, Log, Transcript, as_text, read_arguments, to_count
from .live_sessions import find_gemini_messages
from .reader import Reader

_NOTES = ("info", "warning")  # of the program to the person
_FAILED = ("error", "cancelled")
_OWN = frozenset({"projectHash", "$rewindTo", "$set"})


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    about, live = find_gemini_messages(items, log)
    read_each(log, live, _read_message)
    return [
        log.transcript(
            format="gemini-cli",
            external_id=text(about, "sessionId"),
            agent="gemini-cli",
            tokens=sum(to_count(get(message, "tokens", "total")) for _, message in live) or None,
            metadata=members(about, "projectHash", "kind", "summary", "directories"),
            **times([item for item in live if item[1].get("type") not in _NOTES], "timestamp"),
        )
    ]


def _read_message(log: Log, message: Mapping[str, Json], where: str) -> bool | None:
    kind, said = message.get("type"), _said(log, message, where)
    if kind == "error":
        log.fail(said)
    elif kind == "user" and said and not is_added_by_harness({"role": "user", "content": said}):
        log.hear(said)
    elif kind == "gemini":
        log.use(model=message.get("model"))
        for _, thought in number(message.get("thoughts"), where):
            log.think(" — ".join(filter(None, (text(thought, "subject"), text(thought, "description")))))
        log.say(said)
        for place, call in number(message.get("toolCalls"), f"{where}.toolCalls"):
            id = text(call, "id")
            log.call(text(call, "name") or "tool", read_arguments(call.get("args"), place), id=id)
            if call.get("result") or call.get("status") in (*_FAILED, "success"):
                log.result(_result(log, call, place), id=id, failed=call.get("status") in _FAILED)
        log.end_turn()
    return None if kind in ("user", "gemini", "error", *_NOTES) else False


def _said(log: Log, message: Mapping[str, Json], where: str) -> str:
    """Return the text of a message, whose content may also have the calls and results that stand in `toolCalls`."""
    parts = message.get("content")
    if isinstance(parts, list):
        parts = [part for part in parts if get(part, "functionCall") is None and get(part, "functionResponse") is None]
    return content(log, parts, f"{where}.content")


def _result(log: Log, call: Mapping[str, Json], where: str) -> str:
    """Return what a tool answered: the output of its function responses, and what else stands beside them."""
    answers = [get(part, "functionResponse", "response") for _, part in number(call.get("result"), where)]
    told = [text(answer, "output") or text(answer, "error") or as_text(answer) for answer in answers if answer]
    shown = call.get("resultDisplay")
    return "\n".join(told) or content(log, call.get("result"), where) or (shown if isinstance(shown, str) else "")


READER = Reader(
    name="Gemini CLI",
    owns=lambda line: line.get("type") == "gemini" or not _OWN.isdisjoint(line),
    read=read,
    expects="messages of the types user and gemini",
)
