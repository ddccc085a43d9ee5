"""Read messages: OpenAI chat and Responses, Anthropic, Gemini and ADK, LangChain, pydantic-ai, also in one list.

Each message is told by what it has: `role`, a Responses or LangChain `type`, or pydantic-ai's `kind`. Members that are
not read are kept with the step as its metadata.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .log import (
    Json,
    Log,
    UnreadableTranscript,
    as_text,
    describe_bytes,
    read_arguments,
    read_list,
    read_name,
    read_object,
    read_text,
)

INSTRUCTION_ROLES = ("system", "developer")
AGENT_ROLES = ("assistant", "model", "ai")
USER_ROLES = ("user", "human")
ROLES = (*INSTRUCTION_ROLES, *USER_ROLES, *AGENT_ROLES, "tool", "function")
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
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
_CALL_PARTS = ("tool_use", "server_tool_use", "mcp_tool_use", "tool_call")
_RESULT_PARTS = ("tool_result", "mcp_tool_result", "tool_call_response")
_EXIT_CODE = re.compile(  # what Codex writes before the output of a command
    r"Exit code: (\d+)\n|(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?Process exited with code (\d+)"
)
_SAYS_NOTHING = frozenset({"role", "type", "object", "index", "lc"})
_READ = frozenset(
    {
        "content",
        "parts",
        "name",
        "tool_calls",
        "tool_call",
        "function_call",
        "tool_call_id",
        "refusal",
        "reasoning",
        "reasoning_content",
        "thinking",
        "is_error",
        "error",
    }
)


def is_message(value: Json) -> bool:
    """Tell whether a value is a message in any form this module reads."""
    return isinstance(value, Mapping) and bool(
        value.get("role") in ROLES
        or _is_langchain(value)
        or value.get("type") in _ITEMS
        or (value.get("kind") in ("request", "response") and "parts" in value)
    )


def read_messages(log: Log, messages: Sequence[Json], where: str) -> None:
    """Write messages into a log.

    Raises UnreadableTranscript, naming the message, when one is in no known form.
    """
    for number, message in enumerate(messages):
        read_message(log, message, f"{where}[{number}]")


def read_message(log: Log, message: Json, where: str) -> None:
    if not isinstance(message, Mapping):
        raise UnreadableTranscript(f"{where} must be a chat message, an object with role and content.")
    kind = message.get("type")
    if _is_langchain(message):
        _read_langchain(log, message, where)
    elif "role" in message:
        _read_role(log, message, where)
    elif "parts" in message and message.get("kind") in ("request", "response"):
        _read_pydantic_ai(log, message, where)
    elif isinstance(kind, str) and kind in _ITEMS:
        _ITEMS[kind](log, message, where)
    elif isinstance(kind, str) and kind.endswith("_call"):
        _read_hosted_call(log, message, where)
    else:
        raise UnreadableTranscript(
            f"{where}.role must be one of {', '.join(ROLES)}, or {where}.type that of a message of a known framework."
        )


def _extras(message: Mapping[str, Json], read: frozenset[str]) -> dict[str, Json]:
    return {
        str(name): value
        for name, value in message.items()
        if name not in read and name not in _SAYS_NOTHING and value not in (None, "", [], {}, False)
    }


def _read_role(log: Log, message: Mapping[str, Json], where: str) -> None:
    role = message.get("role")
    if role not in ROLES:
        raise UnreadableTranscript(f"{where}.role must be one of {', '.join(ROLES)}.")
    if role in USER_ROLES and not {"content", "parts"} & set(message):
        raise UnreadableTranscript(f"{where}.content is missing; {where} has {', '.join(map(str, message))[:80]}.")
    content = message.get("content", message.get("parts"))
    place = f"{where}.{'content' if 'content' in message or 'parts' not in message else 'parts'}"
    metadata = _extras(message, _READ)
    if role in ("tool", "function"):
        _read_result_message(log, message, content, place, metadata)
        return
    if role not in AGENT_ROLES and isinstance(message.get("name"), str):
        metadata["name"] = message["name"]
    if role in INSTRUCTION_ROLES:
        log.instruct(_flatten(log, content, place))
        return
    log.note(metadata)
    about = message.get("response_metadata")
    if role in AGENT_ROLES:
        named = about.get("model_name", about.get("model")) if isinstance(about, Mapping) else None
        log.use(model=message.get("model", named), usage=message.get("usage_metadata", message.get("usage")))
    if role in USER_ROLES:
        _read_user(log, content, place)
        return
    for member in ("reasoning", "reasoning_content", "thinking"):
        log.think(_reasoning(message.get(member), f"{where}.{member}"))
    called = _read_agent_content(log, content, place)
    log.say(read_text(message.get("refusal"), f"{where}.refusal"))
    called = _read_calls(log, message, where) or called
    if message.get("type") != "message":  # in the Responses API a call that belongs to the text follows as an item
        log.end_turn(always=not called)


def _reasoning(value: Json, where: str) -> str:
    if isinstance(value, Mapping | list):
        return as_text(value.get("content", value) if isinstance(value, Mapping) else value)
    return read_text(value, where)


def _read_calls(log: Log, message: Mapping[str, Json], where: str) -> bool:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise UnreadableTranscript(f"{where}.tool_calls must be a list.")
    for number, call in enumerate(calls):
        _read_call(log, call, f"{where}.tool_calls[{number}]")
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        _read_function(log, legacy, "", f"{where}.function_call")
    return bool(calls) or isinstance(legacy, Mapping)


def _read_call(log: Log, call: Json, where: str) -> None:
    if not isinstance(call, Mapping):
        raise UnreadableTranscript(f"{where} must be an object with id and function.")
    call_id = read_text(call.get("id"), f"{where}.id")
    function = call.get("custom") if call.get("type") == "custom" else call.get("function")
    if isinstance(function, Mapping):
        _read_function(log, function, call_id, f"{where}.{'custom' if call.get('type') == 'custom' else 'function'}")
    elif isinstance(function, str):  # AgentDojo
        log.call(
            read_name(function, f"{where}.function"), read_arguments(call.get("args"), f"{where}.args"), id=call_id
        )
    elif "name" in call:  # LangChain, tau²-bench
        member = "args" if "args" in call else "arguments"
        log.call(
            read_name(call.get("name"), f"{where}.name"),
            read_arguments(call.get(member), f"{where}.{member}"),
            id=call_id,
        )
    else:
        raise UnreadableTranscript(f"{where}.function must be an object with name and arguments.")


def _read_function(log: Log, function: Mapping[str, Json], call_id: str, where: str) -> None:
    name = read_name(function.get("name"), f"{where}.name")
    if "input" in function:
        log.call(name, {"input": as_text(function["input"])}, id=call_id)
    else:
        log.call(name, read_arguments(function.get("arguments"), f"{where}.arguments"), id=call_id)


def _read_result_message(
    log: Log, message: Mapping[str, Json], content: Json, where: str, metadata: dict[str, Json]
) -> None:
    error = message.get("error")
    failed = bool(message.get("is_error") or error) or message.get("status") == "error"
    text = _flatten(log, content, where)
    if isinstance(error, str) and error not in text:
        text = f"{error}\n{text}" if text else error
    call_id = read_text(message.get("tool_call_id"), f"{where}.tool_call_id")
    if not call_id and message.get("role") == "tool" and "requestor" in message:  # tau²-bench
        call_id = read_text(metadata.pop("id", ""), f"{where}.id")
    name = read_text(message.get("name"), f"{where}.name")
    log.result(text, id=call_id, name=name, failed=failed, metadata=metadata)


def _read_user(log: Log, content: Json, where: str) -> None:
    """Read a user message. Anthropic and Gemini send the results of calls in it."""
    if not isinstance(content, list):
        log.hear(_flatten(log, content, where))
        return
    texts = []
    heard = False
    for number, part in enumerate(content):
        place = f"{where}[{number}]"
        if isinstance(part, Mapping) and _read_result_part(log, part, place):
            heard = True
        else:
            texts.append(_part_text(log, part, place))
    if texts or not heard:
        log.hear("\n".join(texts))


def _read_result_part(log: Log, part: Mapping[str, Json], where: str) -> bool:
    response = part.get("functionResponse", part.get("function_response"))
    if isinstance(response, Mapping):
        answer = response.get("response")
        failed = isinstance(answer, Mapping) and bool(answer.get("error") or answer.get("status") == "error")
        name = read_text(response.get("name"), f"{where}.name")
        log.result(as_text(answer), id=read_text(response.get("id"), f"{where}.id"), name=name, failed=failed)
        return True
    kind = part.get("type")
    if not isinstance(kind, str) or not (kind in _RESULT_PARTS or kind.endswith("_tool_result")):
        return False
    content = part.get("content", part.get("result", part.get("response")))
    call_id = part.get("tool_use_id", part.get("tool_call_id", part.get("id")))
    failed = bool(part.get("is_error")) or (isinstance(content, Mapping) and "error_code" in content)
    read = frozenset({"content", "result", "response", "tool_use_id", "tool_call_id", "id", "is_error"})
    text = _flatten(log, content, f"{where}.content")
    log.result(text, id=read_text(call_id, f"{where}.tool_use_id"), failed=failed, metadata=_extras(part, read))
    return True


def _read_agent_content(log: Log, content: Json, where: str) -> bool:
    """Read what an agent wrote; return whether it called a tool."""
    if not isinstance(content, list):
        log.say(_flatten(log, content, where))
        return False
    called = False
    for number, part in enumerate(content):
        place = f"{where}[{number}]"
        if not isinstance(part, Mapping):
            log.say(_part_text(log, part, place))
            continue
        kind = part.get("type")
        function = part.get("functionCall", part.get("function_call"))
        if kind in ("thinking", "reasoning", "redacted_thinking") or part.get("thought") is True:
            if kind == "redacted_thinking":
                log.leave_out(place, "thinking that the provider encrypted")
            else:
                log.think(as_text(part.get("thinking", part.get("text", part.get("reasoning", part.get("content"))))))
        elif isinstance(function, Mapping):
            name = read_name(function.get("name"), f"{place}.name")
            log.call(name, read_arguments(function.get("args"), f"{place}.args"), id=as_text(function.get("id")))
            called = True
        elif kind in _CALL_PARTS:
            member = next((m for m in ("input", "args", "arguments") if m in part), "input")
            log.note(_extras(part, frozenset({"id", "name", "input", "args", "arguments"})))
            log.call(
                read_name(part.get("name"), f"{place}.name"),
                read_arguments(part.get(member), f"{place}.{member}"),
                id=read_text(part.get("id"), f"{place}.id"),
            )
            called = True
        elif not _read_result_part(log, part, place):
            log.say(_part_text(log, part, place))
    return called


def _flatten(log: Log, content: Json, where: str) -> str:
    """Return content as text: a string, or the parts of a list on lines of their own."""
    if isinstance(content, list):
        return "\n".join(_part_text(log, part, f"{where}[{number}]") for number, part in enumerate(content))
    return as_text(content) if isinstance(content, Mapping) else read_text(content, where)


def _part_text(log: Log, part: Json, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind is None and "text" in part:
        return read_text(part["text"], f"{where}.text")
    if isinstance(part, Mapping) and kind is None and (blob := part.get("inlineData", part.get("inline_data"))):
        return _file_text(log, {"type": "file", "source": blob}, where)
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise UnreadableTranscript(f"{where} must be a content part, an object with type.")
    if kind in _TEXT_PARTS:
        member = next((m for m in ("text", "refusal", "content") if m in part), "text")
        return read_text(part.get(member), f"{where}.{member}")
    return _file_text(log, part, where)


def _file_text(log: Log, part: Mapping[str, Json], where: str) -> str:
    """Name an image, sound or document by its address, or by size and hash where the log holds its bytes."""
    kind = str(part.get("type", "file")).removeprefix("input_").removesuffix("_url")[:40]
    held = next((part[m] for m in ("source", "image_url", "input_audio", "file", "image", "data") if m in part), None)
    url = held if isinstance(held, str) else None
    media_type: Json = part.get("media_type", part.get("mime_type"))
    data: Json = None
    if isinstance(held, Mapping):
        url = held.get("url") or held.get("file_uri") or held.get("file_id")
        media_type = held.get("media_type", held.get("mime_type", held.get("mimeType", held.get("format"))))
        data = held.get("data", held.get("file_data"))
    if isinstance(url, str) and url.startswith("data:"):
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        url = None
    if isinstance(url, str) and url and not data:
        return f"[{kind} {url}]"
    if data:
        described = describe_bytes(kind, media_type, data)
        log.leave_out(where, f"the bytes of {described}")
        return described
    return f"[{kind} {as_text({name: value for name, value in part.items() if name != 'type'})}]"


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
    failed_calls = kept.pop("invalid_tool_calls", None) or []
    if isinstance(kept.get("content"), list) and kept.get("tool_calls"):
        # The same calls stand in the content as the provider wrote them.
        kept["content"] = [
            p
            for p in kept["content"]
            if not (isinstance(p, Mapping) and p.get("type") in (*_CALL_PARTS, "function_call"))
        ]
    kept["tool_calls"] = [*(kept.get("tool_calls") or []), *failed_calls]
    if not kept["tool_calls"]:
        del kept["tool_calls"]
    _read_role(log, {"content": None, **kept, "role": role}, where)


# pydantic-ai


def _read_pydantic_ai(log: Log, message: Mapping[str, Json], where: str) -> None:
    log.note(_extras(message, frozenset({"parts", "kind", "instructions"})))
    log.use(model=message.get("model_name"), usage=message.get("usage"))
    for number, part in enumerate(read_list(message.get("parts"), f"{where}.parts")):
        place = f"{where}.parts[{number}]"
        part = read_object(part, place)
        kind = part.get("part_kind")
        content = part.get("content")
        call_id = read_text(part.get("tool_call_id"), f"{place}.tool_call_id")
        name = read_text(part.get("tool_name"), f"{place}.tool_name")
        if kind == "system-prompt":
            log.instruct(_flatten(log, content, place))
        elif kind == "user-prompt":
            log.hear(_flatten(log, content, place))
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
            log.say(_file_text(log, {"type": str(kind), "file": content}, place))
    if message.get("kind") == "response":
        log.end_turn()


# OpenAI Responses and the Agents SDK


def _read_item_call(log: Log, item: Mapping[str, Json], where: str) -> None:
    log.note(_extras(item, frozenset({"call_id", "id", "name", "arguments", "input", "status"})))
    arguments = {"input": as_text(item["input"])} if "input" in item else item.get("arguments")
    log.call(
        read_name(item.get("name"), f"{where}.name"),
        read_arguments(arguments, f"{where}.arguments"),
        id=read_text(item.get("call_id") or item.get("id"), f"{where}.call_id"),
    )


def _read_item_output(log: Log, item: Mapping[str, Json], where: str) -> None:
    output = item.get("output")
    text = _flatten(log, output, f"{where}.output") if isinstance(output, list) else as_text(output)
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
            log.think(_flatten(log, item[member], f"{where}.{member}"))
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
