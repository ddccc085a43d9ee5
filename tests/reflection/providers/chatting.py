"""A conversation with tools that chat tests have with an adapter."""

from collections.abc import Callable
from typing import Any

import pytest

from reflection.llm.base import Provider, ProviderError
from reflection.llm.chat import ChatRequest, ChatTool, PromptMessage, Role, ToolCall

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
