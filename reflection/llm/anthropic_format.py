"""Anthropic's Messages: a chat in their words, and their answers, whole or as a stream."""

import json
import re
from typing import Any

from reflection.llm.base import CompletionRequest, OnText, estimate_tokens, storable
from reflection.llm.chat import ChatAnswer, ChatMessage, ChatRequest, ToolCall

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
TOOL_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def write_chat(request: ChatRequest) -> dict[str, Any]:
    """Return what of a request depends on the messages and tools. All system messages become one."""
    system = "\n\n".join(said.content for said in request.messages if said.role == "system" and said.content)
    payload: dict[str, Any] = {"messages": _write_turns(request)}
    if system:
        payload["system"] = system
    if request.tools:
        payload["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        choice = TOOL_CHOICES.get(request.tool_choice)
        payload["tool_choice"] = {"type": choice} if choice else {"type": "tool", "name": request.tool_choice}
    return payload


def _write_turns(request: ChatRequest) -> list[dict[str, Any]]:
    """Return turns of alternating roles, in which the results of tools come before texts, as the API wants them."""
    turns: list[dict[str, Any]] = []
    for said in request.messages:
        role = "assistant" if said.role == "assistant" else "user"
        blocks = [] if said.role == "system" else _write_blocks(said)
        if not blocks:
            continue
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        content = turns[-1]["content"]
        if said.role == "tool":
            results = sum(block["type"] == "tool_result" for block in content)
            content[results:results] = blocks
        else:
            content += blocks
    return turns


def _write_blocks(said: ChatMessage) -> list[dict[str, Any]]:
    if said.role == "tool":
        return [{"type": "tool_result", "tool_use_id": _write_id(said.tool_call_id), "content": said.content}]
    texts = [{"type": "text", "text": said.content}] if said.content.strip() else []  # an empty text is refused
    calls = [
        {"type": "tool_use", "id": _write_id(call.id), "name": call.name, "input": call.shown_arguments}
        for call in said.tool_calls
    ]
    return [*texts, *calls]


def _write_id(id: str) -> str:
    """Return an id, perhaps of another provider, with the characters that the API takes."""
    return _NOT_IN_IDS.sub("_", id)


def read_answer(
    request: CompletionRequest | ChatRequest, body: dict[str, Any], *, model: str, latency_ms: float
) -> ChatAnswer | None:
    """Return the answer in a response, or None if it is not in the format."""
    blocks = body.get("content")
    if not isinstance(blocks, list):
        return None
    texts, calls = [], []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "tool_use", "id": str(id), "name": str(name), "input": dict(arguments)}:
                raw = block.get("raw") or json.dumps(arguments, ensure_ascii=False)
                calls.append(ToolCall.read(id=id, name=name, raw_arguments=raw))
    text = storable("".join(texts))
    reason = str(body.get("stop_reason") or "stop")
    finish_reason = FINISH_REASONS.get(reason, reason)
    answered = text + "".join(call.name + call.raw_arguments for call in calls)
    input_tokens, output_tokens = _read_usage(body.get("usage"))
    return ChatAnswer(
        text=text,
        tool_calls=tuple(calls),
        finish_reason="tool_calls" if calls and finish_reason == "stop" else finish_reason,
        input_tokens=input_tokens or request.estimated_input_tokens,
        output_tokens=estimate_tokens(answered) if output_tokens is None else output_tokens,
        model=str(body.get("model") or model),
        latency_ms=latency_ms,
    )


def _read_usage(usage: Any) -> tuple[int, int | None]:
    """Return the tokens of the prompt, cached ones included (0 if unknown), and those of the answer."""
    counts = usage if isinstance(usage, dict) else {}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    output_tokens = counts.get("output_tokens")
    known = [count for name in names if isinstance(count := counts.get(name), int)]
    return sum(known), output_tokens if isinstance(output_tokens, int) else None


class EventAssembler:
    """Puts the events of a stream together to the body of a response that was not streamed."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._body: dict[str, Any] = {"usage": {}}
        self._is_whole = False

    def take(self, event: dict[str, Any]) -> bool:
        """Read one event; return whether it ends the stream. Kinds that are not known are left out."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._body["model"] = message.get("model")
                self._count(message)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index], self._pieces[index] = block, []
                self._add(index, block.get("text"), shown=True)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                if delta.get("type") == "text_delta":
                    self._add(index, delta.get("text"), shown=True)
                elif delta.get("type") == "input_json_delta":
                    self._add(index, delta.get("partial_json"), shown=False)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._body["stop_reason"] = delta.get("stop_reason")
                self._count(event)
            case {"type": "message_stop"}:
                self._is_whole = True
        return self._is_whole

    @property
    def body(self) -> dict[str, Any] | None:
        """The whole response, or None while the end has not come."""
        if not self._is_whole:
            return None
        blocks = []
        for index, block in sorted(self._blocks.items()):
            said = "".join(self._pieces[index])
            blocks.append(block | ({"raw": said} if block.get("type") == "tool_use" else {"text": said}))
        return {**self._body, "content": blocks}

    def _add(self, index: int, piece: Any, *, shown: bool) -> None:
        if isinstance(piece, str) and piece and index in self._pieces:
            self._pieces[index].append(piece)
            if shown:
                self._on_text(storable(piece))

    def _count(self, event: dict[str, Any]) -> None:
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._body["usage"] |= {name: count for name, count in usage.items() if count is not None}
