"""Remove what coding agents add to the messages of a person."""

import re
from collections.abc import Iterable, Mapping, Sequence

from .log import Json, as_text

ADDED_BY_HARNESS = (
    "<environment_context>",
    "<user_instructions>",
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command",
    "<system-reminder>",
    "<task-notification>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-prompt-submit-hook>",
    "<ide_opened_file>",
    "<ide_selection>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill>",
    "<subagent_notification>",
    "<permissions instructions>",
    "<INSTRUCTIONS>",
    "<session_context>",
    "<system-notification>",
    "<skill-context",
    "<codex_internal_context",
    "<goal_context>",
    "<app-context>",
    "<collaboration_mode>",
    "<skills_instructions>",
    "<plugins_instructions>",
    "<recommended_plugins>",
    "# AGENTS.md instructions",
)
_COMMAND = re.compile(r"<command-name>\s*/?([^<\s]+)\s*</command-name>")
_REMINDERS = ("system-reminder", "timestamp")
_CONTEXT_OF_EDITOR = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_SAID_BY_HARNESS = ("[Request interrupted by user", *ADDED_BY_HARNESS)


def is_added_by_harness(message: Mapping[str, Json]) -> bool:
    """Tell whether all of a user's message was written by the program."""
    if message.get("role") != "user":
        return False
    blocks = as_blocks(message.get("content"))
    texts = [as_text(block.get("text")) for block in blocks if isinstance(block, Mapping) and "text" in block]
    return len(texts) == len(blocks) > 0 and all(text.lstrip().startswith(ADDED_BY_HARNESS) for text in texts)


def as_blocks(content: Json) -> list[Json]:
    return list(content) if isinstance(content, list) else [{"type": "text", "text": as_text(content)}]


def typed_text(content: Json) -> str:
    """Return what a person typed in a message, "" if the program added all of it."""
    blocks = as_blocks(content)
    texts = [as_text(block.get("text")) for block in blocks if isinstance(block, Mapping) and "text" in block]
    plain = [_request(without(_REMINDERS, text).strip()) for text in texts]
    return "\n".join(text for text in plain if text and not text.startswith(_SAID_BY_HARNESS))


def typed_command(content: Json) -> str:
    """Return the command that a person gave to Claude Code, such as "/review 123", "" where a message is none."""
    whole = "\n".join(as_text(block.get("text")) for block in as_blocks(content) if isinstance(block, Mapping))
    command = _COMMAND.search(whole)
    arguments = find_inside("command-args", whole) or ""
    return f"/{command[1]} {arguments.strip()}".strip() if command else ""


def _request(text: str) -> str:
    """Return what a person asked for below the open files, which Codex puts before it in an editor."""
    if not text.startswith(_CONTEXT_OF_EDITOR):
        return text
    _, _, request = text.partition("\n## My request")
    return request.partition("\n")[2].strip()


def find_inside(tag: str, text: str) -> str | None:
    """Return the content of the first element with a name, None if there is none that ends."""
    _, begins, rest = text.partition(f"<{tag}>")
    inside, ends, _ = rest.partition(f"</{tag}>")
    return inside if begins and ends else None


def without(tags: Iterable[str], text: str) -> str:
    """Return a text without the elements with some names."""
    for tag in tags:
        kept, at = [], 0
        while (begin := text.find(f"<{tag}>", at)) >= 0 and (end := text.find(f"</{tag}>", begin)) >= 0:
            kept.append(text[at:begin])
            at = end + len(f"</{tag}>")
        text = "".join([*kept, text[at:]])
    return text


def count_messages(items: Sequence[tuple[str, Mapping[str, Json]]], kinds: Iterable[str]) -> int:
    """Return how many of some items are messages of these types."""
    wanted = frozenset(kinds)
    return sum(item.get("type") in wanted for _, item in items)
