"""Claude Code: `~/.claude/projects/**/*.jsonl`, and what `claude -p --output-format stream-json` prints."""

from collections import defaultdict
from collections.abc import Mapping

from ..harness import is_added_by_harness, typed_text
from ..items import Item, Items, get, mapping, members, text, times
from ..log import Json, Log, Transcript, to_count
from ..messages import read_or_leave_out
from ..trees import without_copies
from . import claude_code_sessions as sessions
from .reader import Reader

_MARKS = ("uuid", "parentUuid", "sessionId", "session_id", "isSidechain")
_SILENT = (
    *("summary", "file-history-snapshot", "system", "progress", "attachment", "queue-operation", "last-prompt"),
    *("result", "rate_limit_event", "ai-title", "custom-title", "agent-name", "permission-mode", "tag", "mode"),
)


def owns(line: Mapping[str, Json]) -> bool:
    message = line.get("message")
    is_message = isinstance(message, Mapping) and "content" in message and line.get("type") in ("user", "assistant")
    return is_message and any(name in line for name in _MARKS)


def read(items: Items) -> list[Transcript]:
    """Return the sessions of a file; a sub-agent's side chain is a run of its own."""
    chains: dict[tuple[str, str], list[Item]] = defaultdict(list)
    last = ""
    for item, side in zip(items, sessions.find_sides(items), strict=True):
        last = text(item[1], "sessionId") or text(item[1], "session_id") or last
        chains[last, side].append(item)
    runs = []
    for (session, side), chain in chains.items():
        own = sessions.without_replay(chain, chains.get((session, ""), [])) if side else chain
        if any(sessions.is_said(line) for _, line in own):
            runs.append(read_chain(own, session, side))
    unknown = [(where, line) for where, line in items if not sessions.is_said(line) and line.get("type") not in _SILENT]
    for where, line in unknown if runs else ():
        if not isinstance(line.get("message"), Mapping):
            runs[0].left_out.append(f"{where}: an item of the unknown type {text(line, 'type')[:40]}")
    return runs


def read_chain(items: Items, session: str, side: str) -> Transcript:
    """Return the run of a session, or of one of its side chains."""
    live, abandoned = sessions.live_lines(items)
    log = Log(keeps_going=True)
    if abandoned:
        log.leave_out("session", f"{abandoned} messages of abandoned branches or of the parent session")
    tokens: dict[str, int] = {}
    model = prompt = ""
    for where, line in sessions.whole_messages(live):
        message = mapping(line, "message")
        counts = (to_count(get(message, "usage", name)) for name in ("input_tokens", "output_tokens"))
        tokens[text(message, "id") or where] = sum(counts)
        if message.get("model") == sessions.API_ERROR_MODEL:
            log.fail("\n".join(text(block, "text") for block in message["content"]))
            continue
        model = text(message, "model") or model
        if is_added_by_harness(message):
            continue
        if line["type"] == "user":
            typed = typed_text(message.get("content"))
            if typed and typed == prompt:
                continue  # sent again after an error
            prompt = typed
            if not log.steps:
                log.task = log.task or typed
        else:
            prompt = ""
        kept = {"role": message.get("role") or line["type"], "content": message.get("content")}
        read_or_leave_out(log, kept | members(line, "timestamp"), where)
    log.task = log.task or sessions.find_command(live)
    return log.transcript(
        format="claude-code",
        external_id=f"{session}/{side}" if side else session,
        parent_id=session if side else without_copies(items)[1],
        agent="claude-code",
        model=model,
        tokens=sum(tokens.values()) or None,
        tools=next((line.get("tools") for _, line in items if line.get("subtype") == "init"), None),
        metadata=members(live[0][1] if live else {}, "cwd", "gitBranch", "version"),
        **times(live, "timestamp"),
    )


READER = Reader(
    name="Claude Code", owns=owns, read=read, expects="lines of the types user and assistant with a message"
)
