"""Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`. Its lines look like Claude Code's and hold Gemini's contents."""

from collections.abc import Mapping

from ..harness import is_added_by_harness
from ..items import Items, get, mapping, members, number, read_each, text, times
from ..log import Json, Log, Transcript, as_text, to_count
from ..messages import read_message
from ..trees import MISSING, ROOT, live_branch, without_copies
from .reader import Reader

_KINDS = ("user", "assistant", "tool_result", "system")


def owns(line: Mapping[str, Json]) -> bool:
    has_parts = isinstance(get(line, "message", "parts"), list)
    return "uuid" in line and line.get("type") in _KINDS and (has_parts or "systemPayload" in line)


def read(items: Items) -> list[Transcript]:
    """Return the session; a record may stand on several lines with one `uuid`, each with parts of its own."""
    own, parent = without_copies(items)
    numbered = [(where, {**line, "uuid": text(line, "uuid")}) for where, line in own]
    nodes = [item for item in numbered if item[1]["uuid"] and item[1].get("type") in _KINDS]
    live, others = live_branch(nodes, id_of=lambda line: text(line, "uuid"), parent_of=_parent)
    ids = {line["uuid"] for _, line in live}
    said = [item for item in numbered if item[1]["uuid"] in ids or item[1].get("type") not in _KINDS]
    log = Log(keeps_going=True)
    abandoned = sum(line.get("type") != "system" for _, line in others) + len(items) - len(own)
    if abandoned:
        log.leave_out("session", f"{abandoned} messages of abandoned branches or of the parent session")
    said = list({as_text(line): (where, line) for where, line in reversed(said)}.values())[::-1]
    read_each(log, said, _read_line)
    first = live[0][1] if live else {}
    return [
        log.transcript(
            format="qwen-code",
            external_id=text(first, "sessionId"),
            parent_id=parent,
            agent="qwen-code",
            tokens=sum(to_count(get(line, "usageMetadata", "totalTokenCount")) for _, line in said) or None,
            metadata=members(first, "cwd", "gitBranch", "version"),
            **times(said, "timestamp"),
        )
    ]


def _parent(line: Mapping[str, Json]) -> str | None:
    return MISSING if "parentUuid" not in line else text(line, "parentUuid") or ROOT


def _read_line(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
    kind, parts = line.get("type"), get(line, "message", "parts")
    if kind == "tool_result":
        told = number(parts, where)
        answers = [mapping(part, "functionResponse") for _, part in told if "functionResponse" in part]
        for answer in answers:
            said = text(answer, "response", "output") or text(answer, "response", "error") or text(answer, "response")
            failed = "error" in mapping(answer, "response") or get(line, "toolCallResult", "status") == "error"
            log.result(said, id=text(answer, "id"), name=text(answer, "name"), failed=failed)
        return None if answers else False
    if kind in ("user", "assistant") and isinstance(parts, list) and line.get("subtype") != "notification":
        log.use(model=line.get("model"))
        message = {"role": "user" if kind == "user" else "model", "parts": parts}
        if not is_added_by_harness({"role": message["role"], "content": parts}):
            read_message(log, message, where)
    return None if kind in _KINDS else False


READER = Reader(
    name="Qwen Code",
    owns=owns,
    read=read,
    expects="lines of the types user, assistant and tool_result with parts",
)
