"""Copilot CLI: `~/.copilot/session-state/*/events.jsonl`."""

from collections.abc import Mapping

from ..harness import is_added_by_harness
from ..items import Item, Items, content, get, mapping, members, read_each, text, times
from ..log import Json, Log, Transcript, count_tokens, read_arguments
from .live_sessions import is_typed
from .reader import Reader

_FAMILIES = ("session", "user", "assistant", "tool", "hook", "subagent", "skill", "system", "abort", "permission")


def owns(line: Mapping[str, Json]) -> bool:
    family, dot, _ = text(line, "type").partition(".")
    return bool(dot) and family in _FAMILIES and isinstance(line.get("data"), Mapping)


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    live = _live_lines(log, items)
    start = next((mapping(line, "data") for _, line in live if line.get("type") == "session.start"), {})
    said = {text(line, "type") for _, line in live}
    requested: set[str] = set()

    def read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
        kind, data = text(line, "type"), mapping(line, "data")
        id = text(data, "toolCallId")
        if data.get("parentToolCallId") or line.get("agentId"):
            return None  # a sub-agent's: its answer is the result of the call
        if kind == "user.message" or (kind == "hook.start" and "user.message" not in said):
            prompt = data.get("content") if kind == "user.message" else get(data, "input", "prompt")
            if prompt and is_typed(data) and not is_added_by_harness({"role": "user", "content": prompt}):
                log.hear(content(log, prompt, where))
        elif kind == "assistant.message":
            log.use(model=data.get("model"))
            log.think(text(data, "reasoningText"))
            log.say(text(data, "content"))
            for call in data["toolRequests"] if isinstance(data.get("toolRequests"), list) else []:
                requested.add(text(call, "toolCallId"))
                given = read_arguments(get(call, "arguments"), where)
                log.call(text(call, "name") or "tool", given, id=text(call, "toolCallId"))
        elif kind == "tool.execution_start" and id not in requested:
            requested.add(id)
            log.call(text(data, "toolName") or "tool", read_arguments(data.get("arguments"), where), id=id)
        elif kind == "tool.execution_complete":
            log.use(model=data.get("model"))
            error = text(data, "error", "message") or text(data, "error")
            told = get(data, "result", "content") or get(data, "result", "detailedContent") or data.get("result")
            failed = data.get("success") is False or get(data, "shellExecution", "exitCode") not in (None, 0)
            log.result(error or content(log, told, where), id=id, failed=failed)
        elif kind == "session.error":
            log.fail(text(data, "message"))
        elif kind == "session.model_change":
            log.use(model=data.get("newModel"))
        return None if kind.partition(".")[0] in _FAMILIES else False

    read_each(log, live, read_line)
    return [
        log.transcript(
            format="copilot-cli",
            external_id=text(start, "sessionId"),
            agent="copilot-cli",
            tokens=_count_tokens(items) or None,
            metadata=members(start, "copilotVersion", "version") | members(mapping(start, "context"), "cwd", "branch"),
            **times(live, "timestamp"),
        )
    ]


def _count_tokens(items: Items) -> int:
    """Return what a session used: it says so when it ends, and newer versions after each request."""
    ends = [mapping(line, "data", "modelMetrics") for _, line in items if line.get("type") == "session.shutdown"]
    requests = [mapping(line, "data") for _, line in items if line.get("type") == "session.usage_record"]
    whole = sum(count_tokens(get(used, "usage")) for models in ends for used in models.values())
    return whole or sum(count_tokens(get(request, "usage")) for request in requests)


def _live_lines(log: Log, items: Items) -> Items:
    """Return the events that were not undone: a rewind names the first event that no longer counts."""
    kept: list[Item] = []
    places: dict[str, int] = {}
    for where, line in items:
        at = places.get(text(line, "data", "upToEventId")) if line.get("type") == "session.snapshot_rewind" else None
        if at is not None and at < len(kept):
            log.leave_out(where, f"{len(kept) - at} events that were undone")
            del kept[at:]
        places[text(line, "id")] = len(kept)
        kept.append((where, line))
    return kept


READER = Reader(
    name="Copilot CLI", owns=owns, read=read, expects="events of the types user.message and assistant.message"
)
