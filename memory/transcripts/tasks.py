"""Cut the sessions of coding agents into tasks: a prompt, and what the agent did until the next one."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .checks import judge
from .log import Json, Log, Transcript, UnreadableTranscript, as_text, read_time
from .messages import read_or_leave_out
from .sessions import ADDED_BY_HARNESS, count_codex_tokens, is_of_main_chain, read_claude_code, read_codex

MIN_PROMPT_BYTES = 9  # "continue", "yes", "go on" say nothing by themselves

_REMINDERS = ("system-reminder", "timestamp")
_COMMAND = re.compile(r"<command-name>\s*/?([^<\s]+)\s*</command-name>")
_SAID_BY_HARNESS = ("[Request interrupted by user", *ADDED_BY_HARNESS)


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
    lines: list[Mapping[str, Json]]


def is_too_short(prompt: str) -> bool:
    return len(prompt.strip().encode("utf-8", "replace")) < MIN_PROMPT_BYTES


def cut_session(agent: str, lines: Sequence[Mapping[str, Json]], *, name: str, last: int = 0) -> Session:
    """Return the tasks of a session file, or the last of them. `name` is the file's, for a session that says no id.

    `agent` is "claude-code", "codex" or "cursor". Each run has its outcome, where tests or a commit tell it.
    """
    session = _READERS[agent](lines, last)
    session.id = session.id or name
    for task in session.tasks:
        run = task.run
        run.task = task.prompt
        run.agent = agent
        run.external_id = f"{session.id}/{task.id}"
        run.outcome, run.outcome_source = judge(run.steps)
        run.metadata = {**run.metadata, "session_id": session.id}
    return session


def _cut_claude_code(lines: Sequence[Mapping[str, Json]], last: int) -> Session:
    said = [line for line in lines if is_of_main_chain(line)]
    session = Session(
        id=next((as_text(line["sessionId"]) for line in said if line.get("sessionId")), ""),
        folder=next((as_text(line["cwd"]) for line in said if line.get("cwd")), ""),
    )
    for part in _cut(said, _prompt_of_claude_code)[-last:]:
        if any(line.get("type") == "assistant" for line in part.lines):  # not a command of the program itself
            prompt_id = as_text(part.lines[0].get("uuid")) or str(part.number)
            session.tasks.append(_read(prompt_id, part, lambda lines: read_claude_code(lines)[0]))
    return session


def _prompt_of_claude_code(line: Mapping[str, Json]) -> str:
    message, origin = line["message"], line.get("origin")
    is_automatic = isinstance(origin, Mapping) and origin.get("kind", "human") != "human"
    if line.get("type") != "user" or "toolUseResult" in line or is_automatic:
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if any(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks):
        return ""
    whole = "\n".join(as_text(block.get("text")) for block in blocks if isinstance(block, Mapping))
    if command := _COMMAND.search(whole):
        arguments = _find_inside("command-args", whole) or ""
        return f"/{command[1]} {arguments.strip()}".strip()
    return _typed(blocks)


def _cut_codex(lines: Sequence[Mapping[str, Json]], last: int) -> Session:
    meta = next((line for line in lines if line.get("type") == "session_meta"), {})
    payload = meta.get("payload")
    about: Mapping[str, Json] = payload if isinstance(payload, Mapping) else {}
    session = Session(id=as_text(about.get("id")), folder=as_text(about.get("cwd")))
    named: list[Mapping[str, Json]] = []  # the line that names the model
    counted = at = 0
    for part in _cut(lines, _prompt_of_codex)[-last:]:
        for line in lines[at : part.start]:
            named = [line] if line.get("type") == "turn_context" else named
            counted = count_codex_tokens(line) or counted
        at = part.start
        prompt_id = as_text(part.lines[0].get("timestamp")) or str(part.number)
        task = _read(prompt_id, part, lambda lines: read_codex(lines)[0], [meta, *named])
        said = [line for line in part.lines if line.get("type") == "response_item"]
        task.run.started_at = read_time(part.lines[0].get("timestamp"))
        task.run.ended_at = read_time(said[-1].get("timestamp"))
        if task.run.tokens is not None:  # those of the session until then
            task.run.tokens = max(0, task.run.tokens - counted)
        session.tasks.append(task)
    return session


def _prompt_of_codex(line: Mapping[str, Json]) -> str:
    item = line.get("payload")
    if line.get("type") != "response_item" or not isinstance(item, Mapping) or item.get("role") != "user":
        return ""
    content = item.get("content")
    return _typed(content if isinstance(content, list) else [{"text": content}])


def _cut_cursor(lines: Sequence[Mapping[str, Json]], last: int) -> Session:
    said = [line for line in lines if isinstance(line.get("message"), Mapping) and "role" in line]
    session = Session(id="", folder="")
    for part in _cut(said, _prompt_of_cursor)[-last:]:
        session.tasks.append(_read(str(part.number), part, _read_cursor))
    return session


def _prompt_of_cursor(line: Mapping[str, Json]) -> str:
    content = line["message"].get("content")
    if line["role"] != "user":
        return ""
    typed = _typed(content if isinstance(content, list) else [{"text": content}])
    query = _find_inside("user_query", typed)
    return typed if query is None else query.strip()


def _read_cursor(lines: Sequence[Mapping[str, Json]]) -> Transcript:
    log = Log()
    for number, line in enumerate(lines, start=1):
        said = {"role": line["role"], "content": line["message"].get("content")}
        read_or_leave_out(log, said, f"message {number}")
    return log.transcript(format="cursor")


def _cut(lines: Sequence[Mapping[str, Json]], prompt_of: Callable[[Mapping[str, Json]], str]) -> list[_Part]:
    parts: list[_Part] = []
    for place, line in enumerate(lines):
        if prompt := prompt_of(line):
            parts.append(_Part(number=len(parts) + 1, start=place, prompt=prompt, lines=[]))
        if parts:
            parts[-1].lines.append(line)
    return parts


def _read(
    prompt_id: str,
    part: _Part,
    read: Callable[[Sequence[Mapping[str, Json]]], Transcript],
    head: Sequence[Mapping[str, Json]] = (),
) -> LoggedTask:
    try:
        return LoggedTask(id=prompt_id, prompt=part.prompt, run=read([*head, *part.lines]))
    except (UnreadableTranscript, AttributeError, TypeError) as error:
        return LoggedTask(id=prompt_id, prompt=part.prompt, run=Transcript(), problem=f"not readable: {error}")


def _typed(blocks: Sequence[Json]) -> str:
    """Return what a person typed in a message, "" where all of it is added by the program."""
    texts = [as_text(block.get("text")) for block in blocks if isinstance(block, Mapping) and "text" in block]
    plain = [_without(_REMINDERS, text).strip() for text in texts]
    return "\n".join(text for text in plain if text and not text.startswith(_SAID_BY_HARNESS))


def _find_inside(tag: str, text: str) -> str | None:
    """Return what stands inside the first element of a name, None where there is none that ends."""
    _, begins, rest = text.partition(f"<{tag}>")
    inside, ends, _ = rest.partition(f"</{tag}>")
    return inside if begins and ends else None


def _without(tags: Iterable[str], text: str) -> str:
    """Return a text without the elements of some names."""
    for tag in tags:
        kept, at = [], 0
        while (begin := text.find(f"<{tag}>", at)) >= 0 and (end := text.find(f"</{tag}>", begin)) >= 0:
            kept.append(text[at:begin])
            at = end + len(f"</{tag}>")
        text = "".join([*kept, text[at:]])
    return text


_READERS: dict[str, Callable[[Sequence[Mapping[str, Json]], int], Session]] = {
    "claude-code": _cut_claude_code,
    "codex": _cut_codex,
    "cursor": _cut_cursor,
}
