"""What is a Codex session's own: forks repeat their parent's history, and turns can be undone."""

from collections.abc import Mapping
from datetime import datetime

from ..harness import find_inside, typed_text
from ..items import Item, Items, get, mapping, number, text
from ..log import Json, as_text, read_time, to_count

_BURST_SECONDS = 1.0  # a fork writes its parent's history in one go


def find_meta(items: Items) -> Mapping[str, Json]:
    """Return what a session says of itself. Its own is the first: a fork also holds that of its parent."""
    metas = [mapping(line, "payload") for _, line in items if line.get("type") == "session_meta"]
    oldest = [line for _, line in items[:1] if "id" in line and not {"type", "role"} & line.keys()]
    return next((meta for meta in [*metas, *oldest] if meta), {})


def find_parent(items: Items) -> str:
    """Return the id of the session that a fork or a sub-agent comes from, "" where there is none."""
    own, *others = [mapping(line, "payload") for _, line in items if line.get("type") == "session_meta"] or [{}]
    named = [get(own, "source", "subagent", "thread_spawn", "parent_thread_id")]
    named += [own.get(name) for name in ("parent_thread_id", "forked_from_id")]
    named += [meta.get("id") for meta in others]
    return next((as_text(id) for id in named if id and id != own.get("id")), "")


def live_lines(items: Items) -> tuple[list[Item], int]:
    """Return the lines of a session's own turns, and the number of those that were undone or are its parent's."""
    begin, reads_events = _end_of_replay(items), has_only_events(items)
    heads = [item for item in items[:begin] if item[1].get("type") in ("session_meta", "turn_context")]
    kept: list[Item] = heads[:1] + heads[1:][-1:]  # its own meta, and the newest model
    prompts: list[int] = []
    previous: Mapping[str, Json] = {}
    for item in items[begin:]:
        if item[1] == previous:
            continue  # written twice
        previous = item[1]
        if get(item[1], "payload", "type") == "thread_rolled_back":
            turns = to_count(get(item[1], "payload", "num_turns"))
            if 0 < turns <= len(prompts):
                del kept[prompts[-turns] :], prompts[-turns:]
        elif find_prompt(item[1], reads_events=reads_events):
            prompts.append(len(kept))
        kept.append(item)
    return kept, len(items) - len(kept)


def _end_of_replay(items: Items) -> int:
    """Return where the own lines of a fork begin, 0 if it repeats nothing.

    The repeated ones have the time of the parent's `session_meta` that stands before them. If there is no later prompt,
    the last one is the fork's own: a program may write it at once.
    """
    metas = [at for at, (_, line) in enumerate(items) if line.get("type") == "session_meta"]
    if len(metas) < 2 or not get(items[metas[0]][1], "payload", "forked_from_id"):
        return 0
    prompts = [at for at in range(metas[1], len(items)) if find_prompt(items[at][1], reads_events=False)]
    copied_at = _seconds(items[metas[1]][1])
    later = [at for at in prompts if _seconds(items[at][1]) - copied_at > _BURST_SECONDS]
    return next(iter(later or prompts[-1:]), 0)


def _seconds(line: Mapping[str, Json]) -> float:
    time = read_time(line.get("timestamp"))
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def has_only_events(items: Items) -> bool:
    """Tell whether the messages of a session are events alone, as some versions wrote them."""
    events = {text(line, "payload", "type") for _, line in items if line.get("type") == "event_msg"}
    says = any(is_said(line) for _, line in items)
    return not says and bool(events & {"item_completed", "user_message", "agent_message"})


def is_said(line: Mapping[str, Json]) -> bool:
    return line.get("type") == "response_item" and get(line, "payload", "role") in ("user", "assistant")


def find_prompt(line: Mapping[str, Json], *, reads_events: bool) -> str:
    """Return what a person wrote in a line, "" where it is no prompt."""
    payload = mapping(line, "payload")
    if not reads_events:
        said = line if line.get("type") == "message" and not payload else payload  # the first versions had no payload
        is_user = line.get("type") in ("response_item", "message") and said.get("role") == "user"
        return typed_text(said.get("content")) if is_user else ""
    if payload.get("type") == "user_message":
        return typed_text(payload.get("message"))
    item = mapping(payload, "item") if payload.get("type") == "item_completed" else {}
    return typed_text(item.get("content")) if text(item, "type").lower() in ("usermessage", "user_message") else ""


def find_goal(items: Items) -> str:
    """Return the goal that Codex pursues by itself, "" where it has none."""
    parts = [part for where, line in items for _, part in number(get(line, "payload", "content"), where)]
    said = [text(part, "text") for part in parts if text(part, "text").startswith("<codex_internal_context")]
    return next((goal.strip() for told in said if (goal := find_inside("objective", told))), "")


def count_codex_tokens(line: Mapping[str, Json]) -> int:
    """Return how many tokens a session of Codex had used when it wrote a line, 0 where the line does not say."""
    if line.get("type") != "event_msg" or get(line, "payload", "type") != "token_count":
        return 0
    return to_count(get(line, "payload", "info", "total_token_usage", "total_tokens"))
