"""Cut the sessions of coding agents into tasks: a prompt, and what the agent did until the next one."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .checks import judge
from .harness import find_inside, typed_text
from .items import Item, Items, get, mapping, text
from .lesson_blocks import cut_lesson_blocks
from .log import Json, Log, Transcript, UnreadableTranscript, as_text, read_time
from .programs import claude_code, codex, cursor, gemini_cli, opencode, qwen_code
from .programs.claude_code_sessions import is_of_side, live_lines
from .programs.codex_sessions import count_codex_tokens, find_meta, find_parent, find_prompt, has_only_events
from .programs.codex_sessions import live_lines as live_codex_lines
from .programs.live_sessions import (
    find_gemini_messages,
    find_gemini_prompt,
    find_opencode_messages,
    find_opencode_prompt,
    find_qwen_lines,
    find_qwen_prompt,
)
from .trees import without_copies

MIN_PROMPT_BYTES = 9  # "continue", "yes", "go on" say nothing by themselves

_COMMAND = re.compile(r"<command-name>\s*/?([^<\s]+)\s*</command-name>")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedTask:
    """A prompt and the run that it began. `id` is that of the prompt; `problem` says why the run cannot be read."""

    id: str
    prompt: str
    run: Transcript
    problem: str = ""

    @property
    def reason_to_skip(self) -> str:
        """Return why there is nothing to learn from the task, "" where there may be."""
        if self.problem:
            return self.problem
        if is_too_short(self.prompt):
            return "too short"
        called = any(step["action"] and step["action"]["name"] != "respond" for step in self.run.steps)
        return "" if called else "no tool calls"


@dataclass(kw_only=True, slots=True)
class Session:
    """One session of a coding agent. `folder` is where it worked, "" where the file does not say."""

    id: str
    folder: str
    tasks: list[LoggedTask] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """The lines from a prompt to the next one. `number` counts the prompts, `start` is the place of the first line."""

    number: int
    start: int
    prompt: str
    lines: list[Item]


def is_too_short(prompt: str) -> bool:
    return len(prompt.strip().encode("utf-8", "replace")) < MIN_PROMPT_BYTES


def cut_session(agent: str, lines: Sequence[Mapping[str, Json]], *, name: str, last: int = 0) -> Session:
    """Return the tasks of a session file, or the last of them. `name` is the file's, for a session that says no id.

    `agent` is one of those that have hooks. Each run has its outcome, where tests or a commit tell it.
    """
    session = _READERS[agent]([(f"line {number}", line) for number, line in enumerate(lines, start=1)], last)
    session.id = session.id or name
    for task in session.tasks:
        run = task.run
        run.task = task.prompt
        run.agent = agent
        run.external_id = f"{session.id}/{task.id}"
        run.outcome, run.outcome_source = judge(run.steps)
        run.metadata = {**run.metadata, "session_id": session.id}
    return session


def _cut_claude_code(lines: Items, last: int) -> Session:
    main = [item for item in lines if not is_of_side(item[1])]
    live, _ = live_lines(main)
    _, parent = without_copies(main)
    session = Session(
        id=next((text(line, "sessionId") for _, line in live if line.get("sessionId")), ""),
        folder=next((text(line, "cwd") for _, line in live if line.get("cwd")), ""),
    )
    for part in _cut(live, _prompt_of_claude_code)[-last:]:
        if any(line.get("type") == "assistant" for _, line in part.lines):  # not a command of the program itself
            prompt_id = text(part.lines[0][1], "uuid") or str(part.number)
            task = _read(prompt_id, part, lambda lines: claude_code.read_chain(lines, session.id, ""))
            task.run.parent_id = parent
            session.tasks.append(task)
    return session


def _prompt_of_claude_code(line: Mapping[str, Json]) -> str:
    is_automatic = get(line, "origin", "kind") not in (None, "human")
    if line.get("type") != "user" or "toolUseResult" in line or is_automatic:
        return ""
    content = get(line, "message", "content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if any(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks):
        return ""
    whole = "\n".join(as_text(block.get("text")) for block in blocks if isinstance(block, Mapping))
    if command := _COMMAND.search(whole):
        arguments = find_inside("command-args", whole) or ""
        return f"/{command[1]} {arguments.strip()}".strip()
    return typed_text(blocks)


def _cut_codex(lines: Items, last: int) -> Session:
    about = find_meta(lines)
    live, _ = live_codex_lines(lines)
    metas = [item for item in lines if item[1].get("type") == "session_meta"][:1]
    reads_events = has_only_events(live)
    session = Session(id=text(about, "id"), folder=text(about, "cwd"))
    named: list[Item] = []  # the line that names the model
    counted = at = 0
    for part in _cut(live, lambda line: find_prompt(line, reads_events=reads_events))[-last:]:
        for item in live[at : part.start]:
            named = [item] if item[1].get("type") == "turn_context" else named
            counted = count_codex_tokens(item[1]) or counted
        at = part.start
        prompt_id = text(part.lines[0][1], "timestamp") or str(part.number)
        task = _read(prompt_id, part, lambda lines: codex.read(lines)[0], [*metas, *named])
        said = [line for _, line in part.lines if line.get("type") == "response_item" or reads_events]
        task.run.parent_id = find_parent(lines)
        task.run.started_at = read_time(part.lines[0][1].get("timestamp"))
        task.run.ended_at = read_time(said[-1].get("timestamp"))
        if task.run.tokens is not None:  # those of the session until then
            task.run.tokens = max(0, task.run.tokens - counted)
        session.tasks.append(task)
    return session


def _cut_cursor(lines: Items, last: int) -> Session:
    said = [item for item in lines if isinstance(item[1].get("message"), Mapping) and "role" in item[1]]
    session = Session(id="", folder="")
    for part in _cut(said, cursor.find_prompt)[-last:]:
        session.tasks.append(_read(str(part.number), part, lambda lines: cursor.read(lines)[0]))
    return session


def _cut_gemini_cli(lines: Items, last: int) -> Session:
    about, messages = find_gemini_messages(lines, Log(keeps_going=True))
    session = Session(id=text(about, "sessionId"), folder="")
    for part in _cut(messages, find_gemini_prompt)[-last:]:
        prompt_id = text(part.lines[0][1], "id") or str(part.number)
        session.tasks.append(_read(prompt_id, part, lambda lines: gemini_cli.read(lines)[0]))
    return session


def _cut_qwen_code(lines: Items, last: int) -> Session:
    said, live, _ = find_qwen_lines(lines)
    first = live[0][1] if live else {}
    session = Session(id=text(first, "sessionId"), folder=text(first, "cwd"))
    for part in _cut(said, find_qwen_prompt)[-last:]:
        prompt_id = text(part.lines[0][1], "uuid") or str(part.number)
        session.tasks.append(_read(prompt_id, part, lambda lines: qwen_code.read(lines)[0]))
    return session


def _cut_opencode(lines: Items, last: int) -> Session:
    document = lines[0][1] if lines else {}
    info = mapping(document, "info")
    session = Session(id=text(info, "id"), folder=text(info, "directory"))
    about = {name: value for name, value in info.items() if name not in ("time", "revert")}
    live, _ = find_opencode_messages(document)
    for part in _cut(live, find_opencode_prompt)[-last:]:
        messages = [message for _, message in part.lines]
        began, ended = (mapping(message, "info", "time") for message in (messages[0], messages[-1]))
        time = {"created": began.get("created"), "updated": ended.get("completed") or ended.get("created")}
        whole = {"info": {**about, "time": time}, "messages": messages}
        prompt_id = text(messages[0], "info", "id") or str(part.number)
        session.tasks.append(_read(prompt_id, replace(part, lines=[("session", whole)]), _read_opencode))
    return session


def _read_opencode(lines: Items) -> Transcript:
    return opencode.read(lines)[0]


def _cut(lines: Items, prompt_of: Callable[[Mapping[str, Json]], str]) -> list[_Part]:
    parts: list[_Part] = []
    for place, item in enumerate(lines):
        if prompt := cut_lesson_blocks(prompt_of(item[1])):
            parts.append(_Part(number=len(parts) + 1, start=place, prompt=prompt, lines=[]))
        if parts:
            parts[-1].lines.append(item)
    return parts


def _read(prompt_id: str, part: _Part, read: Callable[[Items], Transcript], head: Sequence[Item] = ()) -> LoggedTask:
    try:
        return LoggedTask(id=prompt_id, prompt=part.prompt, run=read([*head, *part.lines]))
    except UnreadableTranscript as error:
        return LoggedTask(id=prompt_id, prompt=part.prompt, run=Transcript(), problem=f"not readable: {error}")


_READERS: dict[str, Callable[[Items, int], Session]] = {
    "claude-code": _cut_claude_code,
    "codex": _cut_codex,
    "cursor": _cut_cursor,
    "gemini-cli": _cut_gemini_cli,
    "opencode": _cut_opencode,
    "qwen-code": _cut_qwen_code,
}
