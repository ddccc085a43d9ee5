"""The events of OpenHands before 1.0."""

from collections.abc import Mapping

from ..items import get, mapping, text
from ..log import Json, Log, as_text

_SILENT_ACTIONS = ("recall", "change_agent_state", "condensation", "condensation_request")


def read_old_event(log: Log, event: Mapping[str, Json], where: str, actions: dict[str, str]) -> bool | None:
    action, args = text(event, "action"), mapping(event, "args")
    if action == "message":
        said = text(args, "content") or text(event, "message")
        (log.hear if event.get("source") == "user" else log.say)(said)
        log.end_turn()
    elif action == "system":
        log.instruct(text(args, "content"))
    elif action:
        if action in _SILENT_ACTIONS:
            return None
        log.think(text(args, "thought"))
        given = {name: value for name, value in args.items() if name != "thought"}
        log.call(action, given, id=call_id(event))
    elif "observation" in event:
        if event["observation"] in ("null", "agent_state_changed", "recall"):
            return None
        failed = event["observation"] == "error" or get(event, "extras", "metadata", "exit_code") not in (None, 0, -1)
        log.result(text(event, "content"), id=actions.get(text(event, "cause"), ""), failed=failed)
    else:
        return False
    return None


def call_id(event: Mapping[str, Json]) -> str:
    ids = (event.get("tool_call_id"), get(event, "tool_call_metadata", "tool_call_id"), event.get("id"))
    return next((as_text(id) for id in ids if id not in (None, "")), "")
