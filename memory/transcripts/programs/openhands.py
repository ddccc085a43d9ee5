"""OpenHands: the events of a conversation, of its SDK (`kind`) and of versions before 1.0 (`source`)."""

from collections.abc import Mapping

from ..items import Items, get, mapping, members, read_each, text, times
from ..log import Json, Log, Transcript, as_text, read_arguments
from ..messages import read_or_leave_out
from .reader import Reader

_SILENT_ACTIONS = ("system", "recall", "change_agent_state", "condensation", "condensation_request")
_SILENT_KINDS = (
    *("SystemPromptEvent", "PauseEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent"),
    *("ConversationStateUpdateEvent", "TokenEvent", "LLMCompletionLogEvent", "HookExecutionEvent"),
)


def owns(event: Mapping[str, Json]) -> bool:
    kind = text(event, "kind")
    is_event = kind.endswith(("Event", "Observation", "Action")) or kind in _SILENT_KINDS
    return (is_event and "id" in event) or ("source" in event and ("action" in event or "observation" in event))


def read(items: Items) -> list[Transcript]:
    log = Log(keeps_going=True)
    # The call that each action is, also for a result that comes before it
    actions = {id: _call_id(event) for _, event in items if (id := text(event, "id"))}
    read_each(log, items, lambda log, event, where: _read_event(log, event, where, actions))
    return [log.transcript(format="openhands", agent="openhands", **times(items, "timestamp"))]


def _read_event(log: Log, event: Mapping[str, Json], where: str, actions: dict[str, str]) -> bool | None:
    kind = text(event, "kind")
    if not kind:
        return _read_old_event(log, event, where, actions)
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
        log.call(as_text(name), read_arguments(given or action, where), id=_call_id(event))
    elif kind in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent", "RejectObservation"):
        told = event.get("observation", {})
        said = text(event, "rejection_reason") or text(event, "error") or _join(get(told, "content"))
        said = said or text(told, "output") or text(told, "error")
        id = actions.get(text(event, "action_id")) or text(event, "tool_call_id") or text(event, "action_id")
        log.result(said, id=id, failed=kind != "ObservationEvent" or bool(get(told, "is_error")))
    elif kind == "ConversationErrorEvent":
        log.fail(text(event, "detail") or text(event, "code"))
    else:
        return None if kind in _SILENT_KINDS else False
    return None


def _read_old_event(log: Log, event: Mapping[str, Json], where: str, actions: dict[str, str]) -> bool | None:
    action, args = text(event, "action"), mapping(event, "args")
    if action == "message":
        said = text(args, "content") or text(event, "message")
        (log.hear if event.get("source") == "user" else log.say)(said)
        log.end_turn()
    elif action:
        if action in _SILENT_ACTIONS:
            return None
        log.think(text(args, "thought"))
        given = {name: value for name, value in args.items() if name != "thought"}
        log.call(action, given, id=_call_id(event))
    elif "observation" in event:
        if event["observation"] in ("null", "agent_state_changed", "recall"):
            return None
        failed = event["observation"] == "error" or get(event, "extras", "metadata", "exit_code") not in (None, 0, -1)
        log.result(text(event, "content"), id=actions.get(text(event, "cause"), ""), failed=failed)
    else:
        return False
    return None


def _call_id(event: Mapping[str, Json]) -> str:
    ids = (event.get("tool_call_id"), get(event, "tool_call_metadata", "tool_call_id"), event.get("id"))
    return next((as_text(id) for id in ids if id not in (None, "")), "")


def _join(parts: Json) -> str:
    """Return the texts of parts as one: OpenHands ends a line where one ends."""
    return "".join(text(part, "text") for part in parts) if isinstance(parts, list) else as_text(parts)


READER = Reader(
    name="OpenHands", owns=owns, read=read, expects="events with kind, or with source and action", unit="event"
)
