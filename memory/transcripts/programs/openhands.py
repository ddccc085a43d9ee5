"""OpenHands: the events of a conversation, of its SDK (`kind`) and of versions before 1.0 (`source`)."""

from collections.abc import Mapping

from ..items import Items, get, mapping, members, read_each, text, times
from ..log import Json, Log, Transcript, as_text, read_arguments
from ..messages import read_or_leave_out
from ..trees import MISSING, ROOT, live_branch
from .openhands_before_1 import call_id, read_old_event
from .reader import Reader

_SILENT_KINDS = (
    *("PauseEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent", "ConversationStateUpdateEvent"),
    *("TokenEvent", "LLMCompletionLogEvent", "HookExecutionEvent"),
)


def owns(event: Mapping[str, Json]) -> bool:
    kind = text(event, "kind")
    is_event = kind.endswith(("Event", "Observation", "Action")) or kind in _SILENT_KINDS
    return (is_event and "id" in event) or ("source" in event and ("action" in event or "observation" in event))


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    live, others = live_branch(items, id_of=lambda event: text(event, "id"), parent_of=_parent)
    if abandoned := sum("parent_id" in event for _, event in others):
        log.leave_out("session", f"{abandoned} events of abandoned branches")
    # The call that each action is, also for a result that comes before it
    actions = {id: call_id(event) for _, event in items if (id := text(event, "id"))}
    read_each(log, live, lambda log, event, where: _read_event(log, event, where, actions))
    starts = [event for _, event in items if event.get("kind") == "SystemPromptEvent"]
    starts += [mapping(event, "args") for _, event in items if event.get("action") == "system"]  # before 1.0
    offered = next((start["tools"] for start in starts if start.get("tools")), None)
    return [log.transcript(format="openhands", agent="openhands", tools=offered, **times(items, "timestamp"))]


def _parent(event: Mapping[str, Json]) -> str | None:
    parent = text(event, "parent_id")  # only newer versions have it
    return ROOT if parent == "__root__" else parent or MISSING


def _read_event(log: Log, event: Mapping[str, Json], where: str, actions: dict[str, str]) -> bool | None:
    kind = text(event, "kind")
    if not kind:
        return read_old_event(log, event, where, actions)
    if kind == "MessageEvent":
        message = mapping(event, "llm_message")
        role = "user" if event.get("source") == "user" else message.get("role")
        read_or_leave_out(log, {**members(message, "content", "reasoning_content"), "role": role}, where)
    elif kind == "ActionEvent":
        log.think(text(event, "reasoning_content"))
        log.think(_join(event.get("thought")))
        given = get(event, "tool_call", "arguments") or get(event, "tool_call", "function", "arguments")
        action = {name: value for name, value in mapping(event, "action").items() if name != "kind"}
        name = text(event, "tool_name") or text(event, "tool_call", "name") or get(event, "action", "kind") or "tool"
        log.call(as_text(name), read_arguments(given or action, where), id=call_id(event))
    elif kind in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent", "RejectObservation"):
        told = event.get("observation", {})
        said = text(event, "rejection_reason") or text(event, "error") or _join(get(told, "content"))
        said = said or text(told, "output") or text(told, "error")
        id = actions.get(text(event, "action_id")) or text(event, "tool_call_id") or text(event, "action_id")
        failed = bool(get(told, "is_error")) or get(told, "exit_code") not in (None, 0, -1)  # -1: it still runs
        log.result(said, id=id, failed=kind != "ObservationEvent" or failed)
    elif kind == "SystemPromptEvent":
        log.instruct(text(event, "system_prompt", "text"))
    elif kind == "ConversationErrorEvent":
        log.fail(text(event, "detail") or text(event, "code"))
    else:
        return None if kind in _SILENT_KINDS else False
    return None


def _join(parts: Json) -> str:
    """Return the texts of parts as one: OpenHands ends a line where one ends."""
    return "".join(text(part, "text") for part in parts) if isinstance(parts, list) else as_text(parts)


READER = Reader(
    name="OpenHands", owns=owns, read=read, expects="events with kind, or with source and action", unit="event"
)
