"""OpenAI's chat completions: a chat in their words, and their answers, whole or as a stream."""

import json
from typing import Any

from reflection.llm.base import CompletionRequest, OnText, estimate_tokens, storable
from reflection.llm.chat import ChatAnswer, ChatMessage, ChatRequest, ToolCall, id_of_call

FINISH_REASONS = {"content_filter": "refusal", "tool_calls": "stop", "function_call": "stop"}


def write_chat(request: ChatRequest) -> dict[str, Any]:
    """Return what of a request depends on the messages and tools."""
    payload: dict[str, Any] = {"messages": [_write_message(said) for said in request.messages]}
    if request.tools:
        payload["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
        choice = request.tool_choice
        if choice in ("none", "required"):
            payload["tool_choice"] = choice
        elif choice != "auto":
            payload["tool_choice"] = {"type": "function", "function": {"name": choice}}
    return payload


def _write_message(said: ChatMessage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": said.role, "content": said.content}
    if said.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.sent_arguments}}
            for call in said.tool_calls
        ]
    if said.role == "tool":
        message["tool_call_id"] = said.tool_call_id
    return message


def read_answer(
    request: CompletionRequest | ChatRequest, body: dict[str, Any], *, model: str, latency_ms: float
) -> ChatAnswer | None:
    """Return the answer in a response, or None if it is not in the format."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    content, refusal = message.get("content"), message.get("refusal")
    if not isinstance(content, str | None):
        return None
    calls = _read_calls(request, message.get("tool_calls"))
    if calls is None:
        return None
    text = storable(content or (refusal if isinstance(refusal, str) else ""))
    said = str(choice.get("finish_reason") or "stop")
    reason = "refusal" if refusal and not content else FINISH_REASONS.get(said, said)
    usage = body["usage"] if isinstance(body.get("usage"), dict) else {}
    input_tokens, output_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    answered = text + "".join(call.name + call.raw_arguments for call in calls)
    return ChatAnswer(
        text=text,
        tool_calls=calls,
        finish_reason="tool_calls" if calls and reason == "stop" else reason,
        input_tokens=input_tokens if isinstance(input_tokens, int) else request.estimated_input_tokens,
        output_tokens=output_tokens if isinstance(output_tokens, int) else estimate_tokens(answered),
        model=str(body.get("model") or model),
        latency_ms=latency_ms,
    )


def _read_calls(request: CompletionRequest | ChatRequest, listed: Any) -> tuple[ToolCall, ...] | None:
    calls: list[ToolCall] = []
    for index, each in enumerate(listed or ()):
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            return None
        said, arguments = each.get("id"), function.get("arguments")
        # Some servers name no ids, or one for all; results are matched by them
        taken = {call.id for call in calls}
        id = said if isinstance(said, str) and said and said not in taken else id_of_call(request.sha256, index)
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        calls.append(ToolCall.read(id=id, name=function["name"], raw_arguments=raw))
    return tuple(calls)


class ChunkAssembler:
    """Puts the chunks of a stream together to the body of a response that was not streamed."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._finish_reason: str | None = None
        self._rest: dict[str, Any] = {}

    def take(self, event: dict[str, Any]) -> bool:
        """Read one chunk; return whether it ends the stream, which only `[DONE]` does."""
        groq = event.get("x_groq")
        usage = event.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None)
        self._rest |= {name: value for name, value in (("model", event.get("model")), ("usage", usage)) if value}
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return False
        if isinstance(choice.get("finish_reason"), str):
            self._finish_reason = choice["finish_reason"]
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._take_delta(delta)
        return False

    @property
    def body(self) -> dict[str, Any] | None:
        """The whole response, or None while the model has not said why it stopped."""
        if self._finish_reason is None:
            return None
        calls = [call | {"function": call["function"] | {"arguments": _joined(call)}} for call in self._calls]
        message = {"content": "".join(self._content), "refusal": "".join(self._refusal), "tool_calls": calls}
        return {**self._rest, "choices": [{"message": message, "finish_reason": self._finish_reason}]}

    def _take_delta(self, delta: dict[str, Any]) -> None:
        content, refusal = delta.get("content"), delta.get("refusal")
        if isinstance(content, str) and content:
            self._content.append(content)
            self._on_text(storable(content))
        if isinstance(refusal, str):
            self._refusal.append(refusal)
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict):
                self._take_call(piece)

    def _take_call(self, piece: dict[str, Any]) -> None:
        """Add a piece to its call: the last one with its index.

        Some servers send every call whole, with the index 0 or none: another id, or a name where nothing else tells
        calls apart, begins the next one.
        """
        index, id, function = piece.get("index"), piece.get("id"), piece.get("function")
        same = [call for call in self._calls if index is None or call["index"] == index]
        call = same[-1] if same else None
        is_named = isinstance(function, dict) and bool(function.get("name"))
        if call is None or (id and call["id"] and id != call["id"]) or (index is None and not id and is_named):
            call = {"index": index, "id": id, "function": {"name": None, "arguments": []}}
            self._calls.append(call)
        call["id"] = call["id"] or id
        if isinstance(function, dict):
            call["function"]["name"] = call["function"]["name"] or function.get("name")
            call["function"]["arguments"] += [function["arguments"]] if function.get("arguments") else []


def _joined(call: dict[str, Any]) -> Any:
    pieces = call["function"]["arguments"]
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces[-1]
