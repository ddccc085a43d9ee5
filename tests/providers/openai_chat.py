"""OpenAI's chat completions, which most servers speak, and the rules that servers share."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from tests.providers.imitation import THOUGHT, Imitation, Refusal, Turn, refuse_names, refuse_schemas
from tests.scripted_streams import openai_events

REASONS = {"": "stop", "cut": "length", "refused": "content_filter", "paused": "stop"}


class ChatCompletions(Imitation):
    """A server of chat completions. `thought_member` is where its messages have what the model thought."""

    thought_member: ClassVar[str] = ""

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        self.judge.openai_chat(body)

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from refuse_tools(body)
        yield from refuse_orphans(body["messages"])
        yield from refuse_empty(body["messages"])
        calls = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
        yield from refuse_names(call["function"]["name"] for call in calls)

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message=f"This model's maximum context length is {window} tokens. However, your messages resulted in "
            f"{tokens} tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
            param="messages",
            is_expected=True,
        )

    def write_id(self) -> str:
        return f"call_{next(self.numbers):024d}"

    def write_call(self, index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": self.write_id(), "type": "function", "function": function}

    def write(self, turn: Turn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        if self.thinks:
            message[self.thought_member] = f"{THOUGHT} ({next(self.numbers)})"
        if turn.calls:
            calls = [self.write_call(index, *call) for index, call in enumerate(turn.calls)]
            message["tool_calls"] = calls
        reason = "tool_calls" if turn.calls and not turn.ending else REASONS[turn.ending]
        return {
            "id": f"chatcmpl-{next(self.numbers)}",
            "object": "chat.completion",
            "created": 1764000000,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": 1200, "completion_tokens": 90, "total_tokens": 1290},
        }

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return openai_events(answer, with_usage=with_usage)


def refuse_tools(body: dict[str, Any]) -> Iterator[Refusal]:
    functions = [tool["function"] for tool in body.get("tools") or ()]
    yield from refuse_schemas([function["parameters"] for function in functions], "Invalid schema for function")


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def refuse_orphans(messages: list[dict[str, Any]]) -> Iterator[Refusal]:
    """Refuse calls whose results do not follow, and results that follow no call."""
    for index, message in enumerate(messages):
        wanted = [call["id"] for call in message.get("tool_calls") or ()]
        after = messages[index + 1 : index + 1 + len(wanted)]
        answered = {each["tool_call_id"] for each in after if each["role"] == "tool"}
        if missing := [id for id in wanted if id not in answered]:
            yield Refusal(
                message="An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
                param=f"messages.[{index + 1}].role",
            )
        before = messages[index - 1] if index else {}
        if message["role"] == "tool" and before.get("role") != "tool" and not before.get("tool_calls"):
            yield Refusal(
                message="Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                "'tool_calls'.",
                param=f"messages.[{index}].role",
            )


def refuse_empty(messages: list[dict[str, Any]]) -> Iterator[Refusal]:
    """Refuse messages in which nothing is said."""
    for index, message in enumerate(messages):
        if message["role"] in ("user", "assistant") and not text_of(message).strip() and not message.get("tool_calls"):
            yield Refusal(
                message=f"Invalid value for 'content': expected a string, got null. (messages.[{index}].content)",
                param=f"messages.[{index}].content",
            )


def refuse_neighbours(messages: list[dict[str, Any]], words: str) -> Iterator[Refusal]:
    """Refuse users and assistants that do not take turns; calls and results between them do not count."""
    said = [each for each in messages if each["role"] in ("user", "assistant") and not each.get("tool_calls")]
    if any((message["role"] == "user") != (index % 2 == 0) for index, message in enumerate(said)):
        yield Refusal(message=words)


def refuse_prefill(messages: list[dict[str, Any]], words: str) -> Iterator[Refusal]:
    """Refuse a conversation that ends with the assistant."""
    if messages[-1]["role"] == "assistant":
        yield Refusal(message=words)
