"""Letta Code: `~/.letta/transcripts/*/*/transcript.jsonl`."""

from collections.abc import Mapping

from ..harness import typed_text
from ..items import Items, read_each, text, times
from ..log import Json, Log, Transcript, read_arguments
from .reader import Reader


def owns(line: Mapping[str, Json]) -> bool:
    is_text = line.get("kind") in ("user", "assistant", "reasoning") and "text" in line
    return is_text or (line.get("kind") == "tool_call" and "name" in line)


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    read_each(log, items, _read_line)
    return [log.transcript(format="letta-code", agent="letta-code", **times(items, "captured_at"))]


def _read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
    kind = line.get("kind")
    if kind == "user":
        if prompt := typed_text(text(line, "text")):
            log.hear(prompt)
    elif kind == "reasoning":
        log.think(text(line, "text"))
    elif kind == "assistant":
        log.say(text(line, "text"))
    elif kind == "tool_call":
        id = text(line, "source_line_id") or where
        log.call(text(line, "name") or "tool", read_arguments(line.get("argsText"), where), id=id)
        if "resultText" in line or "resultOk" in line:
            log.result(text(line, "resultText"), id=id, failed=line.get("resultOk") is False)
    elif kind == "error":
        log.fail(text(line, "text"))
    else:
        return False
    return None


READER = Reader(
    name="Letta Code", owns=owns, read=read, expects="lines of the kinds user, assistant, reasoning and tool_call"
)
