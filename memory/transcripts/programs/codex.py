"""Codex: `~/.codex/sessions/**/rollout-*.jsonl`."""

from collections.abc import Mapping

from ..chat import read_instructions
from ..harness import is_added_by_harness
from ..items import Items, get, mapping, members, number, read_each, text, times
from ..log import Json, Log, Transcript
from ..messages import is_message, read_or_leave_out
from .codex_items import read_item
from .codex_sessions import (
    count_codex_tokens,
    find_goal,
    find_meta,
    find_parent,
    find_prompt,
    has_only_events,
    live_lines,
)
from .reader import Reader

_KINDS = ("session_meta", "response_item", "turn_context", "event_msg", "compacted", "world_state")


def owns(line: Mapping[str, Json]) -> bool:
    is_oldest = line.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= line.keys()
    return (line.get("type") in _KINDS and "payload" in line) or is_oldest


def read(items: Items) -> list[Transcript]:
    live, abandoned = live_lines(items)
    log = Log(keeps_going=True)
    if abandoned:
        log.leave_out("session", f"{abandoned} lines of undone turns or of the parent session")
    meta, usage = find_meta(items), [count_codex_tokens(line) for _, line in items]
    told = meta.get("base_instructions") or meta.get("instructions")
    read_instructions(log, {"instructions": told}, "session_meta")
    reads_events = has_only_events(live)
    # The same reasoning is written as an event and as an item, whose summary may be empty.
    thoughts = {
        text(part, "text") for where, line in live for _, part in number(get(line, "payload", "summary"), where)
    }

    def read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
        payload, kind = mapping(line, "payload"), line.get("type")
        event = text(payload, "type") if kind == "event_msg" else ""
        is_oldest = "payload" not in line and is_message(line)
        if kind == "response_item" or is_oldest:
            item = payload or line
            if not log.steps:
                log.task = log.task or find_prompt(line, reads_events=False)
            if not is_added_by_harness(item):
                read_or_leave_out(log, item, where)
        elif event == "agent_reasoning" and text(payload, "text") not in thoughts:
            log.think(text(payload, "text"))
        elif reads_events and (prompt := find_prompt(line, reads_events=True)):
            log.hear(prompt)
        elif reads_events and event == "agent_message":
            log.say(text(payload, "message"))
        elif reads_events and event == "item_completed":
            return read_item(log, mapping(payload, "item"), where)
        return None if kind in _KINDS or is_oldest or "type" not in line else False

    read_each(log, live, read_line)
    log.task = log.task or find_goal(live)
    models = [text(line, "payload", "model") for _, line in live if line.get("type") == "turn_context"]
    return [
        log.transcript(
            format="codex",
            external_id=text(meta, "id"),
            parent_id=find_parent(items),
            agent="codex",
            tools=meta.get("dynamic_tools"),
            model=next((model for model in reversed(models) if model), ""),
            tokens=next((tokens for tokens in reversed(usage) if tokens), None),
            metadata=members(meta, "cwd", "git", "cli_version", "originator"),
            **(times(items, "timestamp") or {"started_at": text(meta, "timestamp")}),
        )
    ]


READER = Reader(
    name="Codex",
    owns=owns,
    read=read,
    expects="lines of the types session_meta and response_item, or events of the type item_completed",
)
