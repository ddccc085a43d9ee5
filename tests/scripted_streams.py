"""An answer as the events of a stream, in each format."""

import json
from collections.abc import Iterator
from typing import Any

TEXT_PIECE, ARGUMENTS_PIECE = 5, 7  # characters


def openai_events(body: dict[str, Any], *, with_usage: bool) -> Iterator[str]:
    choice, usage = body["choices"][0], body["usage"]
    frame = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}]
        return write_event(frame | {"choices": choices} | ({"usage": None} if with_usage else {}))

    message = choice["message"]
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for name in ("reasoning_content", "reasoning", "content", "refusal"):
        for piece in _pieces(message.get(name) or "", TEXT_PIECE):
            yield chunk({name: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, **call, "function": function}]})
        for piece in _pieces(call["function"]["arguments"], ARGUMENTS_PIECE):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield write_event(frame | {"choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def anthropic_events(body: dict[str, Any]) -> Iterator[str]:
    usage = body["usage"]
    begun = body | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield write_named_event({"type": "message_start", "message": begun})
    yield write_named_event({"type": "ping"})
    for index, block in enumerate(body["content"]):
        empty, deltas = _anthropic_deltas(block)
        yield write_named_event({"type": "content_block_start", "index": index, "content_block": block | empty})
        for delta in deltas:
            yield write_named_event({"type": "content_block_delta", "index": index, "delta": delta})
        yield write_named_event({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield write_named_event(
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    )
    yield write_named_event({"type": "message_stop"})


def _anthropic_deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how a block begins, and how it grows."""
    match block["type"]:
        case "text":
            return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], TEXT_PIECE)]
        case "thinking":
            thought = _pieces(block["thinking"], TEXT_PIECE)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thought]
            return {"thinking": "", "signature": ""}, [
                *deltas,
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case _:
            words = ("", *_pieces(json.dumps(block["input"]), ARGUMENTS_PIECE))
            return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in words]


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def write_event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def write_named_event(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\n{write_event(data)}"
