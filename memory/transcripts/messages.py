"""Read messages: those of chats, LangChain, pydantic-ai, OpenAI Responses, also in one list.

Each message is told by what it has: `role`, a Responses or LangChain `type`, or pydantic-ai's `kind`. Members that are
not read are kept with the step as its metadata.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .chat import CALL_PARTS, ROLES, extras, file_text, flatten, read_role
from .log import (
    Json,
    Log,
    TooManySteps,
    UnreadableTranscript,
    as_text,
    read_arguments,
    read_list,
    read_name,
    read_object,
    read_text,
)

_LANGCHAIN = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "function",
    "FunctionMessage": "function",
    "chat": "user",
    "remove": "system",
}
_EXIT_CODE = re.compile(  # what Codex writes before the output of a command
    r"Exit code: (\d{1,9})\n|(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?Process exited with code (\d{1,9})"
)


def is_message(value: Json) -> bool:
    """Tell whether a value is a message in any form this module reads."""
    return isinstance(value, Mapping) and bool(
        value.get("role") in ROLES
        or _is_langchain(value)
        or as_text(value.get("type")) in _ITEMS
        or (value.get("kind") in ("request", "response") and "parts" in value)
    )


def read_messages(log: Log, messages: Sequence[Json], where: str) -> None:
    """Write messages into a log.

    Raises UnreadableTranscript, naming the message, when one is in no known form.
    """
    for number, message in enumerate(messages):
        with log.reading(place := f"{where}[{number}]"):
            read_message(log, message, place)


def read_or_leave_out(log: Log, message: Json, where: str) -> None:
    """Write a message of a session into a log; one in an unknown form is left out, and the session is read on."""
    try:
        read_message(log, message, where)
    except TooManySteps:
        raise
    except UnreadableTranscript as error:
        kind = None if is_message(message) or not isinstance(message, Mapping) else message.get("type")
        log.leave_out(where, f"an item of the unknown type {kind[:40]}" if isinstance(kind, str) else str(error))


def read_message(log: Log, message: Json, where: str) -> None:
    if not isinstance(message, Mapping):
        raise UnreadableTranscript(f"{where} must be a chat message, an object with role and content.")
    kind = message.get("type")
    if _is_langchain(message):
        _read_langchain(log, message, where)
    elif "role" in message:
        read_role(log, message, where)
    elif "parts" in message and message.get("kind") in ("request", "response"):
        _read_pydantic_ai(log, message, where)
    elif isinstance(kind, str) and kind in _ITEMS:
        _ITEMS[kind](log, message, where)
    elif isinstance(kind, str) and kind.endswith("_call"):
        _read_hosted_call(log, message, where)
    elif isinstance(kind, str) and kind.endswith("_output") and "call_id" in message:
        _read_item_output(log, message, where)
    else:
        raise UnreadableTranscript(
            f"{where}.role must be one of {', '.join(ROLES)}, or {where}.type that of a message of a known framework."
        )


# LangChain and LangGraph


def _is_langchain(message: Mapping[str, Json]) -> bool:
    if "lc" in message and isinstance(message.get("kwargs"), Mapping):
        return True
    kind = message.get("type")
    return (
        isinstance(kind, str)
        and kind in _LANGCHAIN
        and "role" not in message
        and bool({"content", "data"} & set(message))
    )


def _read_langchain(log: Log, message: Mapping[str, Json], where: str) -> None:
    kind = message.get("type")
    if "lc" in message and isinstance(message.get("kwargs"), Mapping):
        path = message.get("id")
        kind = path[-1] if isinstance(path, list) and path else message["kwargs"].get("type")
        message = message["kwargs"]
    elif isinstance(message.get("data"), Mapping):
        message = message["data"]
    role = _LANGCHAIN.get(kind) if isinstance(kind, str) else None
    if role is None:
        raise UnreadableTranscript(f"{where} is a LangChain message of the unknown type {str(kind)[:40]!r}.")
    if kind == "chat" and message.get("role") in ROLES:
        role = message["role"]
    kept = {name: value for name, value in message.items() if name not in ("type", "example")}
    extra = kept.pop("additional_kwargs", None)
    if isinstance(extra, Mapping):
        missing = {
            n: v for n, v in extra.items() if n not in ("tool_calls", "function_call") or not kept.get("tool_calls")
        }
        kept = {**missing, **{name: value for name, value in kept.items() if value not in (None, [])}}
    failed_calls = read_list(kept.pop("invalid_tool_calls", None), f"{where}.invalid_tool_calls")
    if isinstance(kept.get("content"), list) and kept.get("tool_calls"):
        # The same calls stand in the content as the provider wrote them.
        kept["content"] = [
            p
            for p in kept["content"]
            if not (isinstance(p, Mapping) and p.get("type") in (*CALL_PARTS, "function_call"))
        ]
    kept["tool_calls"] = [*read_list(kept.get("tool_calls"), f"{where}.tool_calls"), *failed_calls]
    if not kept["tool_calls"]:
        del kept["tool_calls"]
    read_role(log, {"content": None, **kept, "role": role}, where)


# pydantic-ai


def _read_pydantic_ai(log: Log, message: Mapping[str, Json], where: str) -> None:
    log.note(extras(message, frozenset({"parts", "kind", "instructions"})))
    log.use(model=message.get("model_name"), usage=message.get("usage"))
    if not log.steps:  # each request has them again
        log.instruct(as_text(message.get("instructions")))
    for number, part in enumerate(read_list(message.get("parts"), f"{where}.parts")):
        place = f"{where}.parts[{number}]"
        part = read_object(part, place)
        kind = part.get("part_kind")
        content = part.get("content")
        call_id = read_text(part.get("tool_call_id"), f"{place}.tool_call_id")
        name = read_text(part.get("tool_name"), f"{place}.tool_name")
        if kind == "system-prompt":
            log.instruct(flatten(log, content, place))
        elif kind == "user-prompt":
            log.hear(flatten(log, content, place))
        elif kind == "text":
            log.say(read_text(content, f"{place}.content"))
        elif kind == "thinking":
            log.think(as_text(content))
        elif kind in ("tool-call", "builtin-tool-call"):
            log.call(
                read_name(name, f"{place}.tool_name"), read_arguments(part.get("args"), f"{place}.args"), id=call_id
            )
        elif kind in ("tool-return", "builtin-tool-return"):
            failed = part.get("outcome") in ("failed", "denied", "interrupted", "retried")
            log.result(as_text(content), id=call_id, name=name, failed=failed)
        elif kind in ("retry-prompt", "retry-feedback"):
            if name:
                log.result(as_text(content), id=call_id, name=name, failed=True)
            else:
                log.hear(as_text(content))
        else:
            log.say(file_text(log, {"type": str(kind), "file": content}, place))
    if message.get("kind") == "response":
        log.end_turn()


# OpenAI Responses and the Agents SDK


def _read_item_call(log: Log, item: Mapping[str, Json], where: str) -> None:
    log.note(extras(item, frozenset({"call_id", "id", "name", "arguments", "input", "status"})))
    arguments = {"input": as_text(item["input"])} if "input" in item else item.get("arguments")
    log.call(
        read_name(item.get("name"), f"{where}.name"),
        read_arguments(arguments, f"{where}.arguments"),
        id=read_text(item.get("call_id") or item.get("id"), f"{where}.call_id"),
    )


def _read_item_output(log: Log, item: Mapping[str, Json], where: str) -> None:
    rest = {n: v for n, v in item.items() if n not in ("type", "call_id", "id", "status", "execution", "error")}
    # The result of a tool of the program's own has a name of its own.
    output = item["output"] if "output" in item or not rest else as_text(next(iter(rest.values())))
    text = flatten(log, output, f"{where}.output") if isinstance(output, list) else as_text(output)
    failed = item.get("status") == "failed" or bool(item.get("error")) or _exit_code(text) != 0
    log.result(text, id=read_text(item.get("call_id") or item.get("id"), f"{where}.call_id"), failed=failed)


def _exit_code(text: str) -> int:
    """Return the exit code in what Codex writes about a command, 0 where there is none."""
    if found := _EXIT_CODE.match(text):
        return int(found[1] or found[2])
    if not text.startswith("{"):
        return 0
    try:
        about = json.loads(text).get("metadata")
    except (ValueError, RecursionError):
        return 0
    code = about.get("exit_code") if isinstance(about, Mapping) else None
    return code if isinstance(code, int) else 0


def _read_item_reasoning(log: Log, item: Mapping[str, Json], where: str) -> None:
    for member in ("summary", "content"):
        if item.get(member):
            log.think(flatten(log, item[member], f"{where}.{member}"))
    if item.get("encrypted_content"):
        log.leave_out(where, "reasoning that the provider encrypted")


def _read_hosted_call(log: Log, item: Mapping[str, Json], where: str) -> None:
    """Read a call of a tool that the provider runs itself: call and result are one item."""
    kind = str(item["type"])
    output = next((item[m] for m in ("output", "results", "outputs", "result") if item.get(m)), None)
    name = item.get("name") if isinstance(item.get("name"), str) else kind.removesuffix("_call")
    structural = (
        "id",
        "type",
        "status",
        "output",
        "results",
        "outputs",
        "result",
        "error",
        "name",
        "arguments",
        "call_id",
    )
    rest = {n: v for n, v in item.items() if n not in structural and v is not None}
    call_id = read_text(item.get("call_id") or item.get("id"), f"{where}.id")
    arguments = read_arguments(item.get("arguments"), f"{where}.arguments") if "arguments" in item else rest
    log.call(read_name(name, f"{where}.name"), arguments, id=call_id)
    error = item.get("error")
    if output is not None or error:
        log.result(as_text(error or output), id=call_id, failed=bool(error) or item.get("status") == "failed")


def _read_item_message(log: Log, item: Mapping[str, Json], where: str) -> None:
    raise UnreadableTranscript(f"{where}.role must be one of {', '.join(ROLES)}.")


_ITEMS: dict[str, Any] = {
    "message": _read_item_message,
    "reasoning": _read_item_reasoning,
    "function_call": _read_item_call,
    "custom_tool_call": _read_item_call,
    "function_call_output": _read_item_output,
    "custom_tool_call_output": _read_item_output,
    "local_shell_call_output": _read_item_output,
    "shell_call_output": _read_item_output,
    "apply_patch_call_output": _read_item_output,
    "computer_call_output": _read_item_output,
    "web_search_call": _read_hosted_call,
    "file_search_call": _read_hosted_call,
    "computer_call": _read_hosted_call,
    "code_interpreter_call": _read_hosted_call,
    "image_generation_call": _read_hosted_call,
    "local_shell_call": _read_hosted_call,
    "shell_call": _read_hosted_call,
    "apply_patch_call": _read_hosted_call,
    "mcp_call": _read_hosted_call,
}
