"""A conversation with tools that chat tests have, with an adapter or an SDK."""

import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from reflection.llm.base import Provider, ProviderError
from reflection.llm.chat import ChatRequest, ChatTool, PromptMessage, Role, ToolCall
from tests.scripted_answers import answer

SYSTEM, QUESTION = "You sell shoes.", "Refund order A1 for Zoë, please."
TOOLS = tuple(
    ChatTool(
        name=name,
        description=f"{name}.",
        parameters={
            "type": "object",
            "properties": {parameter: {"type": "string"}},
            "required": [parameter],
            "additionalProperties": False,
        },
    )
    for name, parameter in (("get_order", "order"), ("get_user", "name"), ("refund", "order"))
)
RESULTS = {"get_order": '{"total": 12.5}', "get_user": "Zoë is a customer.", "refund": ""}
SCRIPT = (
    answer("Let me look.", ("get_order", {"order": "A1"}), ("get_user", {"name": "Zoë \U0001f45f"})),
    answer("", ("refund", {"order": "A1"})),
    answer("I refunded order A1."),
)
TRANSCRIPT = [
    ("Let me look.", [("get_order", {"order": "A1"}), ("get_user", {"name": "Zoë \U0001f45f"})]),
    ("", [("refund", {"order": "A1"})]),
    ("I refunded order A1.", []),
]
Turns = list[tuple[str, list[tuple[str, Any]]]]


def message(role: Role, content: str, *calls: ToolCall, answers: str = "") -> PromptMessage:
    return PromptMessage(role=role, content=content, tool_calls=calls, tool_call_id=answers)


def call(id: str, name: str, raw_arguments: str) -> ToolCall:
    return ToolCall.read(id=id, name=name, raw_arguments=raw_arguments)


def chat_request(*messages: PromptMessage, **said: Any) -> ChatRequest:
    asked = messages or (message("system", SYSTEM), message("user", QUESTION))
    return ChatRequest(**{"messages": asked, "tools": TOOLS, "max_output_tokens": 200, **said})


def ignore(text: str) -> None:
    """Take pieces of text that a test does not look at."""


def failure_of_chat(provider: Provider, on_text: Callable[[str], None] | None = ignore) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        provider.chat(chat_request(), on_text=on_text)
    return caught.value


def converse(provider: Provider, *, streamed: bool) -> Turns:
    """Talk through an adapter until no tool is called."""
    said, turns = list(chat_request().messages), Turns()
    while True:
        answered = provider.chat(chat_request(*said), on_text=ignore if streamed else None)
        turns.append((answered.text, [(each.name, each.arguments) for each in answered.tool_calls]))
        if answered.finish_reason != "tool_calls":
            return turns
        said.append(answered.message)
        said += [message("tool", RESULTS[each.name], answers=each.id) for each in answered.tool_calls]


def converse_by_openai_sdk(client: openai.OpenAI, *, streamed: bool) -> Turns:
    """Talk as the SDK's documentation does."""
    said: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    tools: Any = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": True,
            },
        }
        for tool in TOOLS
    ]
    turns = Turns()
    while True:
        if streamed:
            usage: Any = {"include_usage": True}
            with client.chat.completions.stream(
                model="test-model", messages=said, tools=tools, stream_options=usage
            ) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(model="test-model", messages=said, tools=tools)
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (1200, 90)
        reply = completion.choices[0].message
        calls = reply.tool_calls or []
        turns.append(
            (reply.content or "", [(each.function.name, json.loads(each.function.arguments)) for each in calls])
        )
        if completion.choices[0].finish_reason != "tool_calls":
            return turns
        again = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.function.name, "arguments": each.function.arguments},
            }
            for each in calls
        ]
        said.append({"role": "assistant", "content": reply.content, "tool_calls": again})
        said += [{"role": "tool", "content": RESULTS[each.function.name], "tool_call_id": each.id} for each in calls]


def converse_by_anthropic_sdk(client: anthropic.Anthropic, *, streamed: bool) -> Turns:
    """Talk as the SDK's documentation does."""
    said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    tools: Any = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in TOOLS
    ]
    turns = Turns()
    while True:
        asked: Any = {
            "model": "test-model",
            "max_tokens": 200,
            "system": SYSTEM,
            "messages": said,
            "tools": tools,
            "tool_choice": {"type": "auto"},
        }
        if streamed:
            with client.messages.stream(**asked) as stream:
                reply = stream.get_final_message()
        else:
            reply = client.messages.create(**asked)
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1200, 90)
        calls = [block for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        turns.append((text, [(each.name, each.input) for each in calls]))
        if reply.stop_reason != "tool_use":
            return turns
        said.append({"role": "assistant", "content": reply.content})
        results = [{"type": "tool_result", "tool_use_id": each.id, "content": RESULTS[each.name]} for each in calls]
        said.append({"role": "user", "content": results})
