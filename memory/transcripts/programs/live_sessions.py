"""What is live in the sessions of Gemini CLI, OpenCode and Qwen Code, and what a person typed there and elsewhere."""

import re
from collections.abc import Mapping

from ..harness import find_inside, typed_text, without
from ..items import Item, Items, get, mapping, members, number, number_all, text
from ..log import Json, Log, as_text
from ..trees import MISSING, ROOT, live_branch, without_copies

_EXIT_CODE = re.compile(r"^Exit Code: [1-9]", re.MULTILINE)
_CURSOR_ADDED = ("<user_info>", "<rules>", "<agent_skills>", "<hooks_context", "<open_and_recently_viewed_files>")
_CURSOR_FOLLOW_UPS = (  # what Cursor asks by itself when a sub-agent has ended
    *("Perform any necessary follow-up actions in response to", "Briefly inform the user about the task result"),
    "The beginning of the above subagent result",
)
QWEN_KINDS = ("user", "assistant", "tool_result", "system")
GEMINI_ABOUT = ("sessionId", "projectHash", "kind", "summary", "directories")
OPENCODE_SILENT = ("step-start", "step-finish", "snapshot", "patch", "compaction", "agent")
OPENCODE_NOTES = ("system", "synthetic", "compaction", "idle", "agent-switched", "model-switched", "location-switched")


def find_gemini_messages(items: Items, log: Log) -> tuple[dict[str, Json], list[Item]]:
    """Return what the session says of itself, and its messages: the newest of each id, in the order of their first."""
    about: dict[str, Json] = {}
    messages: dict[str, Item] = {}
    for where, line in items:
        about |= members(mapping(line, "$set"), *GEMINI_ABOUT)
        if "$rewindTo" in line:
            ids = list(messages)
            back = ids[ids.index(text(line, "$rewindTo")) :] if text(line, "$rewindTo") in messages else ids
            log.leave_out(where, f"{len(back)} messages that were undone")
            for id in back:
                del messages[id]
        elif "sessionId" in line:
            about |= members(line, *GEMINI_ABOUT)
        # A compressed history: what is new in it was written by the program, and what it lacks was work all the same.
        is_rewritten = bool(messages) and isinstance(get(line, "$set", "messages"), list)
        inside = number_all(line.get("messages", get(line, "$set", "messages")), "messages")
        is_note = "$set" in line or "$rewindTo" in line or ("sessionId" in line and "type" not in line)
        for place, message in inside or ([] if is_note else [(where, line)]):
            id = text(message, "id") or place
            if not is_rewritten or id in messages:
                messages[id] = (place, message)
    return about, list(messages.values())


def find_cursor_prompt(line: Mapping[str, Json]) -> str:
    """Return what a person wrote in a line of Cursor, "" where it is no prompt."""
    if (line.get("role") or line.get("type")) != "user":
        return ""
    typed = typed_text(get(line, "message", "content"))
    query = find_inside("user_query", typed)
    prompt = without(("manually_attached_skills",), typed if query is None else query).strip()
    return "" if prompt.startswith((*_CURSOR_ADDED, *_CURSOR_FOLLOW_UPS)) else prompt


def is_typed(data: Mapping[str, Json]) -> bool:
    """Tell whether a person wrote a prompt to Copilot CLI, and not a skill, another agent or the autopilot."""
    is_added = text(data, "source").startswith(("skill-", "agent-")) or data.get("source") == "autopilot"
    return not is_added and not data.get("isAutopilotContinuation")


def is_failed_command(name: str, output: str) -> bool:
    """Tell whether a command failed, of Gemini CLI and Qwen Code: for them, its tool worked. The code is at the end."""
    return name == "run_shell_command" and bool(_EXIT_CODE.search(output[-500:]))


def find_qwen_lines(items: Items) -> tuple[list[Item], list[Item], int]:
    """Return the lines to read, those of the live branch, and how many messages are not of this session's."""
    own, _ = without_copies(items)
    numbered: list[Item] = [(where, {**line, "uuid": text(line, "uuid")}) for where, line in own]
    nodes = [item for item in numbered if item[1]["uuid"] and item[1].get("type") in QWEN_KINDS]
    live, others = live_branch(nodes, id_of=lambda line: text(line, "uuid"), parent_of=_parent)
    ids = {line["uuid"] for _, line in live}
    said = [item for item in numbered if item[1]["uuid"] in ids or item[1].get("type") not in QWEN_KINDS]
    abandoned = sum(line.get("type") != "system" for _, line in others) + len(items) - len(own)
    return list({as_text(line): (where, line) for where, line in reversed(said)}.values())[::-1], live, abandoned


def _parent(line: Mapping[str, Json]) -> str | None:
    return MISSING if "parentUuid" not in line else text(line, "parentUuid") or ROOT


def find_opencode_messages(document: Mapping[str, Json]) -> tuple[list[Item], int]:
    """Return the messages of a session, and how many were undone: these stay in the file, after the named one."""
    messages: dict[str, Item] = {}
    for where, message in number_all(document.get("messages"), "messages"):
        message = _as_opencode_1(message)
        messages[text(message, "info", "id") or where] = (where, message)
    ids, back = list(messages), text(document, "info", "revert", "messageID")
    live = [messages[id] for id in (ids[: ids.index(back)] if back in messages else ids)]
    return live, len(messages) - len(live)


def _as_opencode_1(message: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return a message of OpenCode 2, which has its text or content in itself, as one of OpenCode 1."""
    if "info" in message or "type" not in message:
        return message
    info = {**message, "role": message["type"], "modelID": get(message, "model", "id")}
    own = [{"type": "text", "text": message["text"]}] if message.get("text") else []
    parts = [part for _, part in number(message.get("content"), "content")] or own
    return {"info": info, "parts": [_as_opencode_1_part(part) for part in parts]}


def _as_opencode_1_part(part: Mapping[str, Json]) -> Mapping[str, Json]:
    if part.get("type") != "tool" or "name" not in part:
        return part
    state = mapping(part, "state")
    output = "\n".join(text(block, "text") for _, block in number(state.get("content"), "content"))
    told = {"output": output, "error": text(state, "error", "message") or output}
    return {**part, "tool": part["name"], "callID": part.get("id"), "state": {**state, **told}}


def is_of_person(part: Mapping[str, Json]) -> bool:
    """Tell whether a part of a message to OpenCode was written by a person."""
    return part.get("type") not in OPENCODE_SILENT and not part.get("synthetic") and not part.get("ignored")


def find_gemini_prompt(message: Mapping[str, Json]) -> str:
    return typed_text(message.get("content")) if message.get("type") == "user" else ""


def find_qwen_prompt(line: Mapping[str, Json]) -> str:
    return typed_text(get(line, "message", "parts")) if line.get("type") == "user" else ""


def find_opencode_prompt(message: Mapping[str, Json]) -> str:
    if get(message, "info", "role") != "user":
        return ""
    return typed_text([part for _, part in number(message.get("parts"), "parts") if is_of_person(part)])
