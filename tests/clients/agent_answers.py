"""What a scripted provider answers to an agent that calls tools: OpenAI's chat completions and Responses, and Messages.

Connections end with the answer: frameworks leave theirs to the loop, which ends with the test.
"""

import json
from typing import Any

from tests.scripted_answers import Behaviour, raw

TASK = "Cancel reservation EHGLP3."
LESSON = "Read the fare class first."
ANSWER = "It cannot be cancelled."
LOOK = {"name": "get_reservation", "arguments": {"id": "EHGLP3"}}
SAY = {"name": "respond", "arguments": {"content": ANSWER}}
CLOSE = {"Connection": "close"}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
_RESPONSE_USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def chat_says(text: str = ANSWER) -> Behaviour:
    return _chat({"content": text})


def chat_calls(name: str = "get_reservation", call_id: str = "call_1", **arguments: str) -> Behaviour:
    function = {"name": name, "arguments": json.dumps(arguments or LOOK["arguments"])}
    return _chat({"content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]})


def chat_streams(*texts: str) -> Behaviour:
    return _chat_stream(*({"content": text} for text in texts))


def chat_streams_call(name: str = "get_reservation", call_id: str = "call_1") -> Behaviour:
    function = {"name": name, "arguments": json.dumps(LOOK["arguments"])}
    return _chat_stream({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]})


def _chat_stream(*deltas: dict[str, Any]) -> Behaviour:
    def event(choices: list[Any], **about: Any) -> str:
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": choices}
        return f"data: {json.dumps({**body, **about})}\n\n"

    events = [event([{"index": 0, "delta": {"role": "assistant", **d}, "finish_reason": None}]) for d in deltas]
    reason = "tool_calls" if "tool_calls" in deltas[-1] else "stop"
    events.append(event([{"index": 0, "delta": {}, "finish_reason": reason}]))
    body = "".join([*events, event([], usage=_USAGE), "data: [DONE]\n\n"])
    return raw(body.encode(), headers={"Content-Type": "text/event-stream", **CLOSE})


def response_says(text: str = ANSWER) -> Behaviour:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return _response({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content})


def response_calls(name: str = "get_reservation", call_id: str = "call_1", **arguments: str) -> Behaviour:
    said = {"name": name, "arguments": json.dumps(arguments or LOOK["arguments"])}
    return _response({"type": "function_call", "id": "f", "call_id": call_id, "status": "completed", **said})


def anthropic_says(text: str = ANSWER) -> Behaviour:
    return _anthropic({"type": "text", "text": text})


def anthropic_calls(name: str = "get_reservation", call_id: str = "toolu_1") -> Behaviour:
    return _anthropic({"type": "tool_use", "id": call_id, "name": name, "input": LOOK["arguments"]})


def _chat(message: dict[str, Any]) -> Behaviour:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": _USAGE}
    return raw(json.dumps(body).encode(), headers=CLOSE)


def _response(*output: dict[str, Any]) -> Behaviour:
    about = {"id": "r", "object": "response", "created_at": 1, "model": "m-1", "status": "completed"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": _RESPONSE_USAGE}
    return raw(json.dumps({**about, "output": output, **rest}).encode(), headers=CLOSE)


def _anthropic(*content: dict[str, Any]) -> Behaviour:
    about = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "stop_sequence": None}
    rest = {"stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5}}
    return raw(json.dumps({**about, **rest, "content": content}).encode(), headers=CLOSE)
