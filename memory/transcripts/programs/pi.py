"""Pi, and OpenClaw and OMP, which keep their sessions as Pi does: a tree of entries in JSON Lines."""

from collections.abc import Mapping

from ..items import Items, content, get, mapping, members, read_each, text, times
from ..log import Json, Log, Transcript, to_count, to_number
from ..messages import read_or_leave_out
from ..trees import MISSING, ROOT, live_branch
from .reader import Reader

_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary")
_SILENT = (
    *("model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "custom_message", "label"),
    *("session_info", "session", "leaf", "reset_boundary", "session_init", "title", "title_change", "mode_change"),
    *("service_tier_change", "ttsr_injection", "credential_pin", "model_usage"),
)
_OF_OMP = ("session_init", "title", "title_change", "mode_change", "service_tier_change", "ttsr_injection")


def owns(line: Mapping[str, Json]) -> bool:
    message = mapping(line, "message")
    if line.get("type") == "message" and message:
        is_entry = "parentId" in line and "id" in line
        return message.get("role") in _ROLES and (is_entry or bool({"api", "toolCallId"} & message.keys()))
    return line.get("type") in _SILENT and ("timestamp" in line or "parentId" in line) and "sessionId" not in line


def read(items: Items) -> list[Transcript]:
    head = next((line for _, line in items if line.get("type") == "session"), {})
    entries = [item for item in items if item[1].get("type") != "session"]
    messages = [item for item in entries if item[1].get("type") == "message"]
    leaf = next((text(line, "targetId") for _, line in reversed(entries) if line.get("type") == "leaf"), "")
    live, others = live_branch(entries, id_of=lambda line: text(line, "id"), parent_of=_parent, leaf=leaf)
    log = Log(keeps_going=True)
    if abandoned := sum(line.get("type") == "message" for _, line in others):
        log.leave_out("session", f"{abandoned} messages of abandoned branches")
    read_each(log, live, _read_entry)
    name = _find_name(items, head)
    costs = [cost for _, line in messages if (cost := to_number(get(line, "message", "usage", "cost", "total")))]
    return [
        log.transcript(
            format=name,
            external_id=text(head, "id"),
            parent_id=text(head, "parentSession").rpartition("_")[2].removesuffix(".jsonl"),
            agent=name,
            tokens=sum(to_count(get(line, "message", "usage", "totalTokens")) for _, line in messages) or None,
            cost_usd=sum(costs) or None,
            metadata=members(head, "cwd", "version"),
            **times(live, "timestamp"),
        )
    ]


def _parent(line: Mapping[str, Json]) -> str | None:
    return MISSING if "parentId" not in line else text(line, "parentId") or ROOT


def _find_name(items: Items, head: Mapping[str, Json]) -> str:
    """Tell the three by entries that one of them writes, and OpenClaw by the version of its sessions."""
    if any(line.get("type") in _OF_OMP for _, line in items):
        return "omp"
    is_openclaw = to_count(head.get("version")) > 3 or any("openclaw" in text(line, "customType") for _, line in items)
    return "openclaw" if is_openclaw else "pi"


def _read_entry(log: Log, line: Mapping[str, Json], where: str) -> bool | None:
    if line.get("type") != "message":
        log.use(model=line.get("modelId")) if line.get("type") == "model_change" else None
        return None if line.get("type") in _SILENT else False
    message = mapping(line, "message")
    role, said = message.get("role"), message.get("content")
    if role == "toolResult":
        id, failed = text(message, "toolCallId"), message.get("isError") is True
        log.result(content(log, said, where), id=id, name=text(message, "toolName"), failed=failed)
    elif role == "bashExecution":  # a command that the person ran
        output, code = text(message, "output"), message.get("exitCode")
        log.hear(f"$ {text(message, 'command')}\n{output}" + (f"\nexit code {code}" if code else ""))
    elif role in ("user", "assistant"):
        if said or not message.get("errorMessage"):
            is_mirror = message.get("model") == "delivery-mirror"  # OpenClaw's, of what another program said
            kept = members(message, "model") if not is_mirror else {}
            read_or_leave_out(log, {"role": role, "content": said} | kept, where)
        if error := text(message, "errorMessage"):
            log.fail(error)
    return None if role in _ROLES else False


READER = Reader(
    name="Pi",
    owns=owns,
    read=read,
    expects="lines of the type message with id, parentId and a message with a role",
    names={"openclaw": "OpenClaw", "omp": "OMP"},
)
