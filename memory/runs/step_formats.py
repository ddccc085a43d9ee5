"""Bring the steps of a run into the one form we store, whatever form the agent's framework writes them in.

A chat log (OpenAI messages with tool calls) becomes steps without losing a message: assistant text becomes the action
`respond` with the next user message as its observation. Every tool call becomes a step; text next to it is its thought,
and the tool message with its id is its observation. A message that answers nothing (the opening user message, a result
that no call asked for) becomes a step of its own with no action. Leading system and developer messages are the agent's
instructions and no part of what it did; they are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_STEPS
from memory.runs.steps import Json, kind_of, make_step, read_arguments, read_name, read_step, read_text

RESPOND = "respond"

INSTRUCTION_ROLES = ("system", "developer")
ROLES = (*INSTRUCTION_ROLES, "user", "assistant", "tool", "function")

_READ_MEMBERS = frozenset(
    {
        "role",
        "content",
        "name",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "refusal",
        "reasoning",
        "reasoning_content",
    }
)
# What frameworks log with a message and what says nothing about the run.
_SILENT_MEMBERS = frozenset(
    {
        "id",
        "type",
        "object",
        "status",
        "annotations",
        "audio",
        "weight",
        "index",
        "created_at",
        "timestamp",
        "metadata",
        "is_error",
        "model",
        "finish_reason",
        "provider_specific_fields",
        "reasoning_details",
    }
)
_TEXT_PARTS = ("text", "input_text", "output_text")


def normalise_steps(raw: Json) -> list[dict[str, Any]]:
    """Return the steps of a run in normal form.

    Reads our own form (a list of {"thought", "action", "observation", "error"}, the action an object with `name` and
    `arguments` or a string such as `search[red shoes]`, `get_user({"id": 1})` or `go to desk 1`), a list of OpenAI
    chat messages, and an object whose only member `messages` is such a list. A form that was normalised before comes
    back unchanged.

    Raises InvalidSteps, naming the place, when the value is in none of these forms or is larger than we keep.
    """
    where = "steps"
    if isinstance(raw, Mapping) and set(raw) == {"messages"}:
        raw, where = raw["messages"], "steps.messages"
        if not isinstance(raw, list):
            raise InvalidSteps(f"{where} must be a list of chat messages, not {kind_of(raw)}.")
        return steps_from_messages(raw, where=where)
    if raw is None:
        return []
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        raise InvalidSteps(f"{where} must be a list of steps or of chat messages, not {kind_of(raw)}.")
    if len(raw) > MAX_STEPS:
        raise InvalidSteps(f"{where} has {len(raw)} entries; at most {MAX_STEPS} are kept. Split the run.")
    if raw and isinstance(raw[0], Mapping) and "role" in raw[0]:
        return steps_from_messages(raw, where=where)
    return [read_step(item, number=i, where=f"{where}[{i - 1}]") for i, item in enumerate(raw, start=1)]


def steps_from_messages(messages: Sequence[Json], *, where: str = "steps") -> list[dict[str, Any]]:
    """Return the steps of a chat log.

    Raises InvalidSteps, naming the message, when one is not in a known form.
    """
    if len(messages) > MAX_STEPS:
        raise InvalidSteps(f"{where} has {len(messages)} messages; at most {MAX_STEPS} are kept. Split the run.")
    log = _ChatLog()
    for number, message in enumerate(messages):
        log.read(message, where=f"{where}[{number}]")
    if len(log.steps) > MAX_STEPS:
        raise InvalidSteps(f"{where} makes {len(log.steps)} steps; at most {MAX_STEPS} are kept. Split the run.")
    return log.steps


def opening_message(messages: Sequence[Json]) -> str:
    """Return the text of the first user message, "" when there is none: what the run was asked to do."""
    for number, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") == "user":
            return _content(message.get("content"), where=f"messages[{number}].content")
    return ""


@dataclass(kw_only=True, slots=True)
class _OpenCall:
    id: str
    name: str
    step: dict[str, Any]


@dataclass(slots=True)
class _ChatLog:
    steps: list[dict[str, Any]] = field(default_factory=list)
    open_calls: list[_OpenCall] = field(default_factory=list)

    def read(self, message: Json, *, where: str) -> None:
        if not isinstance(message, Mapping):
            raise InvalidSteps(f"{where} must be a chat message, an object with role and content.")
        role = message.get("role")
        if role not in ROLES:
            raise InvalidSteps(f"{where}.role must be one of {', '.join(ROLES)}.")
        for member in message:
            if member not in _READ_MEMBERS and member not in _SILENT_MEMBERS:
                raise InvalidSteps(f"{where} has an unknown member {str(member)[:80]!r}.")
        text = _content(message.get("content"), where=f"{where}.content")
        if role == "assistant":
            self._assistant(message, text, where=where)
        elif role in ("tool", "function"):
            self._result(message, text, where=where)
        elif role == "user" or self.steps:
            self._heard(text, where=where)

    def _add(self, **parts: Any) -> dict[str, Any]:
        step = make_step(index=len(self.steps) + 1, **parts)
        self.steps.append(step)
        return step

    def _assistant(self, message: Mapping[str, Json], text: str, *, where: str) -> None:
        thought = "\n".join(
            part
            for key in ("reasoning", "reasoning_content")
            if (part := read_text(message.get(key), where=f"{where}.{key}"))
        )
        refusal = read_text(message.get("refusal"), where=f"{where}.refusal")
        text = "\n".join(part for part in (text, refusal) if part)
        calls = _calls(message, where=where)
        if not calls:
            self._add(thought=thought, action={"name": RESPOND, "arguments": {"content": text}})
            return
        thought = "\n".join(part for part in (thought, text) if part)
        for number, (call_id, action) in enumerate(calls):
            step = self._add(thought="" if number else thought, action=action)
            self.open_calls.append(_OpenCall(id=call_id, name=action["name"], step=step))

    def _result(self, message: Mapping[str, Json], text: str, *, where: str) -> None:
        call_id = read_text(message.get("tool_call_id"), where=f"{where}.tool_call_id")
        name = read_text(message.get("name"), where=f"{where}.name")
        for call in self.open_calls:
            if call.id == call_id if call_id else not name or call.name == name:
                self.open_calls.remove(call)
                call.step["observation"] = text
                return
        self._add(observation=text)

    def _heard(self, text: str, *, where: str) -> None:
        last = self.steps[-1] if self.steps else None
        if last is None or (last["action"] is not None and last["action"]["name"] != RESPOND):
            self._add(observation=text)
        elif last["observation"]:
            last["observation"] = read_text(f"{last['observation']}\n\n{text}", where=f"{where}.content")
        else:
            last["observation"] = text


def _calls(message: Mapping[str, Json], *, where: str) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = []
    tool_calls = message.get("tool_calls") or []
    if not isinstance(tool_calls, list):
        raise InvalidSteps(f"{where}.tool_calls must be a list.")
    for number, call in enumerate(tool_calls):
        place = f"{where}.tool_calls[{number}]"
        if not isinstance(call, Mapping):
            raise InvalidSteps(f"{place} must be an object with id and function.")
        call_id = read_text(call.get("id"), where=f"{place}.id")
        if call.get("type") == "custom":
            calls.append((call_id, _function(call.get("custom"), argument="input", where=f"{place}.custom")))
        else:
            calls.append((call_id, _function(call.get("function"), argument="arguments", where=f"{place}.function")))
    if (legacy := message.get("function_call")) is not None:
        calls.append(("", _function(legacy, argument="arguments", where=f"{where}.function_call")))
    return calls


def _function(value: Json, *, argument: str, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidSteps(f"{where} must be an object with name and {argument}.")
    arguments = value.get(argument)
    if argument == "input":
        arguments = {"input": read_text(arguments, where=f"{where}.input")}
    return {
        "name": read_name(value.get("name"), where=f"{where}.name"),
        "arguments": read_arguments(arguments, where=f"{where}.{argument}"),
    }


def _content(value: Json, *, where: str) -> str:
    if not isinstance(value, list):
        return read_text(value, where=where)
    parts = []
    for number, part in enumerate(value):
        place = f"{where}[{number}]"
        if isinstance(part, str):
            parts.append(part)
            continue
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(kind, str):
            raise InvalidSteps(f"{place} must be a content part, an object with type.")
        if kind in _TEXT_PARTS or kind == "refusal":
            parts.append(read_text(part.get("refusal" if kind == "refusal" else "text"), where=f"{place}.text"))
        else:
            parts.append(f"[{kind[:40]} left out]")
    return read_text("\n".join(parts), where=where)
