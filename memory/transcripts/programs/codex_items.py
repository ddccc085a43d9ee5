"""The items of Codex's `item_completed` events: messages, thoughts, and calls that hold their result."""

import re
from collections.abc import Mapping

from ..items import content, get, text
from ..log import Json, Log, as_text, read_arguments

_NO_ARGUMENTS = (
    *("id", "type", "status", "result", "error", "stdout", "stderr", "aggregated_output", "formatted_output"),
    *("content_items", "exit_code", "duration", "tool", "server", "arguments", "success", "namespace"),
)


def read_item(log: Log, item: Mapping[str, Json], where: str) -> bool | None:
    """Read an item of `item_completed`: a message, a thought, or a call with its result."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text(item, "type")[:60]).lower()
    if kind in ("user_message", "hook_prompt", "context_compaction"):
        return None  # a prompt is read where prompts are found; the others were written by the program
    if kind in ("agent_message", "plan", "reasoning"):
        parts = item.get("content") or item.get("summary_text") or item.get("text") or item.get("raw_content")
        told = "\n".join(text(part, "text") or as_text(part) for part in parts) if isinstance(parts, list) else parts
        (log.say if kind == "agent_message" else log.think)(as_text(told))
        return None
    if not kind:
        return False
    names = {"command_execution": "shell", "file_change": "apply_patch"}
    server = f"mcp__{item['server']}__" if item.get("server") else ""
    rest = {name: value for name, value in item.items() if name not in _NO_ARGUMENTS and value is not None}
    given = item.get("arguments", rest)
    log.call(
        names.get(kind) or server + (text(item, "tool") or kind), read_arguments(given, where), id=text(item, "id")
    )
    ends = ("error", "aggregated_output", "result", "content_items", "stdout", "stderr")
    result = next((item[name] for name in ends if item.get(name) not in (None, "")), None)
    result = get(result, "content") or get(result, "message") or result
    failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (None, 0)
    if result is not None or failed:
        said = content(log, result, where) if isinstance(result, list) else as_text(result)
        log.result(said, id=text(item, "id"), failed=failed)
    return None
