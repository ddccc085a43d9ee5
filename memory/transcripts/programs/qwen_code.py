"""Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`. Its lines look like Claude Code's and hold Gemini's contents."""

from collections.abc import Mapping

from ..harness import is_added_by_harness
from ..items import Items, get, mapping, members, number, read_each, text, times
from ..log import Json, Log, Transcript, to_count
from ..messages import read_message
from ..trees import without_copies
from .live_sessions import QWEN_KINDS, find_qwen_lines
from .reader import Reader


def owns(line: Mapping[str, Json]) -> bool:
    has_parts = isinstance(get(line, "message", "parts"), list)
    return "uuid" in line and line.get("type") in QWEN_KINDS and (has_parts or "systemPayload" in line)


def read(items: Items) -> list[Transcript]:
    """Return the session; a record may stand on several lines with one `uuid`, each with parts of its own."""
    said, live, abandoned = find_qwen_lines(items)
    log = Log(keeps_going=True)
    if abandoned:
        log.leave_out("session", f"{abandoned} messages of abandoned branches or of the parent session")
    read_each(log, said, _read_line)
    first = live[0][1] if live else {}
    return [
        log.transcript(
            format="qwen-code",
            external_id=text(first, "sessionId"),
            parent_id=without_copies(items)[1],
            agent="qwen-code",
            tokens=sum(to_count(get(line, "usageMetadata", "totalTokenCount")) for _, line in said) or None,
            metadata=members(first, "cwd", "gitBranch", "version"),
            **times(said, "timestamp"),
        )
    ]


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
    return None if kind in QWEN_KINDS else False


READER = Reader(
    name="Qwen Code",
    owns=owns,
    read=read,
    expects="lines of the types user, assistant and tool_result with parts",
)
