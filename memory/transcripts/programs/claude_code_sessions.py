"""What is live in a Claude Code session: each line once, only the branch that was continued, and whole messages."""

from collections.abc import Mapping
from itertools import takewhile

from ..harness import as_blocks, typed_command
from ..items import Item, Items, get, mapping, text
from ..log import Json, as_text
from ..trees import MISSING, ROOT, live_branch, without_copies

API_ERROR_MODEL = "<synthetic>"


def is_said(line: Mapping[str, Json]) -> bool:
    """Tell whether a line of Claude Code is a message, and not a note or a summary of what was said before."""
    is_message = line.get("type") in ("user", "assistant") and isinstance(line.get("message"), Mapping)
    return (is_message and not line.get("isMeta") and not line.get("isCompactSummary")) or _is_queued(line)


def _is_queued(line: Mapping[str, Json]) -> bool:
    """Tell whether a line is what a person typed while the agent worked. It is an attachment, and no message."""
    attachment = mapping(line, "attachment")
    is_typed = attachment.get("commandMode", "prompt") == "prompt"
    is_typed = is_typed and get(attachment, "origin", "kind") in (None, "human")
    return line.get("type") == "attachment" and attachment.get("type") == "queued_command" and is_typed


def is_of_side(line: Mapping[str, Json]) -> str:
    """Return the name of the side chain that a line belongs to, "" for the session itself."""
    side = text(line, "agentId") or "side" if line.get("isSidechain") else ""
    return side or text(line, "parent_tool_use_id")  # of `claude -p --output-format stream-json`


def find_sides(items: Items) -> list[str]:
    """Return for each line the name of its side chain, "" for those of the session itself.

    The first versions named no sub-agents: there a prompt begins a chain, and the parents tell whose a line is.
    """
    sides: list[str] = []
    names: dict[str, str] = {}  # the side of each line
    last, count = "side", 0
    for _, line in items:
        side, parent = is_of_side(line), names.get(text(line, "parentUuid"))
        if side == "side":
            if _is_asked(line) and not parent:
                count += 1
                last = "side" if count == 1 else f"side-{count}"
            side = parent or last
        names[text(line, "uuid")] = side
        sides.append(side)
    return sides


def live_lines(items: Items) -> tuple[list[Item], int]:
    """Return the messages of one chain that are on its live branch, and the number of those that are not.

    A call whose message also has others is a line beside the branch, and so is its result: both are live.
    """
    copies = len(items)
    items, _ = without_copies(items)
    copies -= len(items)
    ends = [at for at, (_, line) in enumerate(items) if is_said(line)]
    marks = [at for at, (_, line) in enumerate(items) if line.get("type") == "last-prompt" and line.get("leafUuid")]
    leaf = text(items[marks[-1]][1], "leafUuid") if marks and ends and marks[-1] > ends[-1] else ""
    places = {id(item[1]): at for at, item in enumerate(items)}
    nodes = [item for item in items if item[1].get("uuid") or is_said(item[1])]
    # A note at the end of the file is no leaf, or the branch would be that of the note.
    while nodes and not is_said(nodes[-1][1]) and not leaf:
        nodes.pop()
    live, others = live_branch(nodes, id_of=lambda line: text(line, "uuid"), parent_of=_parent, leaf=leaf)
    messages = {text(line, "message", "id") for _, line in live} - {""}
    beside = [item for item in others if text(item[1], "message", "id") in messages]
    calls = {text(block, "id") for _, line in [*live, *beside] for block in _blocks_of(line)} - {""}
    beside += [item for item in others if any(text(b, "tool_use_id") in calls for b in _blocks_of(item[1]))]
    kept = {id(item[1]): item for item in [*live, *beside] if is_said(item[1])}
    if not kept:  # the branch of a note, in a file whose lines are out of order
        kept = {id(item[1]): item for item in items if is_said(item[1])}
    abandoned = sum(is_said(line) and id(line) not in kept for _, line in others)
    ordered = sorted(kept.values(), key=lambda item: places[id(item[1])]) if beside else list(kept.values())
    return ordered, abandoned + copies


def _parent(line: Mapping[str, Json]) -> str | None:
    if "parentUuid" not in line:
        return MISSING
    if line["parentUuid"] is None and not _is_asked(line):  # where it was compacted; nothing else begins one
        return text(line, "logicalParentUuid") or MISSING
    return text(line, "parentUuid") or ROOT


def _is_asked(line: Mapping[str, Json]) -> bool:
    return line.get("type") == "user" and not any(get(block, "tool_use_id") for block in _blocks_of(line))


def _blocks_of(line: Mapping[str, Json]) -> list[Json]:
    blocks = get(line, "message", "content")
    return blocks if isinstance(blocks, list) else []


def find_command(items: Items) -> str:
    """Return the last slash command before the agent's first message: what was asked, where nobody typed a prompt."""
    asked = takewhile(lambda item: item[1].get("type") == "user", items)
    commands = [typed_command(get(line, "message", "content")) for _, line in asked]
    return next((command for command in reversed(commands) if command), "")


def without_replay(items: Items, main: Items) -> list[Item]:
    """Return the lines of a side chain that are its own: one that answers aside begins with the session's messages."""
    ids = {text(line, "message", "id") for _, line in main} - {""}
    if not any(text(line, "message", "id") in ids for _, line in items):
        return list(items)
    said = {as_text(get(line, "message", "content")) for _, line in main if line.get("type") == "user"}
    return [
        (where, line)
        for where, line in items
        if text(line, "message", "id") not in ids
        and not (line.get("type") == "user" and as_text(get(line, "message", "content")) in said)
    ]


def whole_messages(items: Items) -> list[Item]:
    """Join the lines of one message, which may hold a block each, or all that was written until then."""
    whole: list[Item] = []
    written: dict[str, dict[str, Json]] = {}
    for where, line in items:
        if _is_queued(line):
            message = {"role": "user", "content": get(line, "attachment", "prompt")}
            line = {**line, "type": "user", "message": message}
        message = dict(mapping(line, "message"))
        id = text(message, "id") if line.get("type") == "assistant" else ""
        if id and id in written:
            _add_blocks(written[id]["content"], as_blocks(message.get("content")))
            written[id]["usage"] = message.get("usage") or written[id].get("usage")
            continue
        if line.get("type") == "assistant":
            message["content"] = as_blocks(message.get("content"))
            written[id] = message
        whole.append((where, {**line, "message": message}))
    return whole


def _add_blocks(blocks: list[Json], more: list[Json]) -> None:
    """Add blocks to those of a message. One that goes on where another stopped takes its place."""
    for block in more:
        kind, said = get(block, "type"), text(block, "text") or text(block, "thinking") or text(block, "id")
        for at, old in enumerate(blocks):
            old_said = text(old, "text") or text(old, "thinking") or text(old, "id")
            if kind == get(old, "type") and said and said.startswith(old_said):
                blocks[at] = block
                break
            if kind == get(old, "type") and said and old_said.startswith(said):
                break
        else:
            blocks.append(block)
