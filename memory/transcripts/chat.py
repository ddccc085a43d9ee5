"""Read messages told by their `role`: OpenAI chat, Anthropic, Gemini and ADK, AgentDojo, tau²-bench.

Members that are not read are kept with the step as its metadata.
"""

from collections.abc import Mapping

from .log import Json, Log, UnreadableTranscript, as_text, describe_bytes, read_arguments, read_name, read_text

INSTRUCTION_ROLES = ("system", "developer")
AGENT_ROLES = ("assistant", "model", "ai")
USER_ROLES = ("user", "human")
ROLES = (*INSTRUCTION_ROLES, *USER_ROLES, *AGENT_ROLES, "tool", "function")
SYSTEM_MEMBERS = ("system", "instructions", "systemInstruction", "system_instruction")  # beside messages, in requests
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
CALL_PARTS = ("tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "toolCall")
_RESULT_PARTS = ("tool_result", "mcp_tool_result", "tool_call_response")
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


def extras(message: Mapping[str, Json], read: frozenset[str]) -> dict[str, Json]:
    return {
        str(name): value
        for name, value in message.items()
        if name not in read and name not in _SAYS_NOTHING and value not in (None, "", [], {}, False)
    }


def read_role(log: Log, message: Mapping[str, Json], where: str) -> None:
    role = message.get("role")
    if role not in ROLES:
        raise UnreadableTranscript(f"{where}.role must be one of {', '.join(ROLES)}.")
    if role in USER_ROLES and not {"content", "parts"} & set(message):
        raise UnreadableTranscript(f"{where}.content is missing; {where} has {', '.join(map(str, message))[:80]}.")
    content = message.get("content", message.get("parts"))
    place = f"{where}.{'content' if 'content' in message or 'parts' not in message else 'parts'}"
    metadata = extras(message, _READ)
    if role in ("tool", "function"):
        _read_result_message(log, message, content, place, metadata)
        return
    if role not in AGENT_ROLES and isinstance(message.get("name"), str):
        metadata["name"] = message["name"]
    if role in INSTRUCTION_ROLES:
        log.instruct(flatten(log, content, place))
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
        with log.reading(place := f"{where}.tool_calls[{number}]"):
            _read_call(log, call, place)
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
    text = flatten(log, content, where)
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
        log.hear(flatten(log, content, where))
        return
    texts = []
    heard = False
    for number, part in enumerate(content):
        with log.reading(place := f"{where}[{number}]"):
            if isinstance(part, Mapping) and _read_result_part(log, part, place):
                heard = True
            else:
                texts.append(_part_text(log, part, place))
    if texts or not (heard or content):
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
    text = flatten(log, content, f"{where}.content")
    log.result(text, id=read_text(call_id, f"{where}.tool_use_id"), failed=failed, metadata=extras(part, read))
    return True


def _read_agent_content(log: Log, content: Json, where: str) -> bool:
    """Read what an agent wrote; return whether it called a tool."""
    if not isinstance(content, list):
        log.say(flatten(log, content, where))
        return False
    called = False
    for number, part in enumerate(content):
        with log.reading(place := f"{where}[{number}]"):
            called = _read_agent_part(log, part, place) or called
    return called


def _read_agent_part(log: Log, part: Json, where: str) -> bool:
    """Read a part of what an agent wrote; return whether it is a call."""
    if not isinstance(part, Mapping):
        log.say(_part_text(log, part, where))
        return False
    kind = part.get("type")
    function = part.get("functionCall", part.get("function_call"))
    if kind == "redacted_thinking":
        log.leave_out(where, "thinking that the provider encrypted")
    elif kind in ("thinking", "reasoning") or part.get("thought") is True:
        log.think(as_text(part.get("thinking", part.get("text", part.get("reasoning", part.get("content"))))))
    elif isinstance(function, Mapping):
        name = read_name(function.get("name"), f"{where}.name")
        log.call(name, read_arguments(function.get("args"), f"{where}.args"), id=as_text(function.get("id")))
        return True
    elif kind in CALL_PARTS:
        member = next((m for m in ("input", "args", "arguments") if m in part), "input")
        log.note(extras(part, frozenset({"id", "name", "input", "args", "arguments"})))
        log.call(
            read_name(part.get("name"), f"{where}.name"),
            read_arguments(part.get(member), f"{where}.{member}"),
            id=read_text(part.get("id"), f"{where}.id"),
        )
        return True
    elif not _read_result_part(log, part, where):
        log.say(_part_text(log, part, where))
    return False


def read_instructions(log: Log, request: Json, where: str) -> None:
    """Take the system prompt that a request to a model holds beside its messages; leave out one in an unknown form."""
    for name in SYSTEM_MEMBERS if isinstance(request, Mapping) else ():
        content, path = request.get(name), f"{where}.{name}".removeprefix(".")
        if isinstance(content, Mapping):
            content = content.get("parts", content.get("text"))
        if isinstance(content, str | list):
            try:
                log.instruct(flatten(log, content, path))
            except UnreadableTranscript as error:
                log.leave_out(path, str(error))


def flatten(log: Log, content: Json, where: str) -> str:
    """Return content as text: a string, or the parts of a list on lines of their own."""
    if isinstance(content, list):
        texts = []
        for number, part in enumerate(content):
            with log.reading(place := f"{where}[{number}]"):
                texts.append(_part_text(log, part, place))
        return "\n".join(texts)
    return as_text(content) if isinstance(content, Mapping) else read_text(content, where)


def _part_text(log: Log, part: Json, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind is None and "text" in part:
        return read_text(part["text"], f"{where}.text")
    if isinstance(part, Mapping) and kind is None and (blob := part.get("inlineData", part.get("inline_data"))):
        return file_text(log, {"type": "file", "source": blob}, where)
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise UnreadableTranscript(f"{where} must be a content part, an object with type.")
    if kind in _TEXT_PARTS:
        member = next((m for m in ("text", "refusal", "content") if m in part), "text")
        return read_text(part.get(member), f"{where}.{member}")
    return file_text(log, part, where)


def file_text(log: Log, part: Mapping[str, Json], where: str) -> str:
    """Name an image, sound or document by its address, or by size and hash where the log holds its bytes."""
    kind = str(part.get("type", "file")).removeprefix("input_").removesuffix("_url")[:40]
    held = next((part[m] for m in ("source", "image_url", "input_audio", "file", "image", "data") if m in part), None)
    url = held if isinstance(held, str) else None
    media_type: Json = part.get("media_type", part.get("mime_type"))
    data: Json = None
    if isinstance(held, Mapping):
        url = held.get("url") or held.get("file_uri") or held.get("file_id") or held.get("path")
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
