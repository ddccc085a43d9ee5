"""What is said in a chat with a model that may call tools: messages, tools, requests and answers.

Providers translate these into their own format and back (`Provider.chat` in base.py).
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

from memory.strict_json import InvalidJson, check_json
from reflection.llm.base import estimate_tokens, storable, strip_fence

Role = Literal["system", "user", "assistant", "tool"]
TOKENS_OF_IMAGE = 2_000
MOST_WRAPPINGS = 2
TOKENS_AROUND = 8  # of the markers that a provider puts around each message and tool, estimated high


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTool:
    """A tool that the model may call. `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A call that the model asks for. `arguments` is None where `raw_arguments` is not a usable JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | None = field(hash=False)
    raw_arguments: str

    @classmethod
    def read(cls, *, id: str, name: str, raw_arguments: str) -> Self:
        """Return a call from the model's own words. No words mean no arguments; a fence around them is no part.

        Some servers write what is JSON already as the JSON of a text, once or twice.
        """
        raw = storable(raw_arguments)
        try:
            parsed = storable_json(json.loads(strip_fence(raw))) if raw.strip() else {}
            for _ in range(MOST_WRAPPINGS):
                parsed = json.loads(strip_fence(parsed)) if isinstance(parsed, str) else parsed
            check_json(parsed)
        except (ValueError, RecursionError, InvalidJson):
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else None
        return cls(id=storable(id), name=storable(name), arguments=arguments, raw_arguments=raw)

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The arguments as a model is shown them later: providers refuse what is no object."""
        return {"INVALID_JSON": self.raw_arguments} if self.arguments is None else self.arguments

    @property
    def sent_arguments(self) -> str:
        """`shown_arguments` as compact JSON, the form in which calls are sent back."""
        return json.dumps(self.shown_arguments, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptMessage:
    """One message. An assistant's may have `tool_calls`; a tool's answers the call named in `tool_call_id`.

    `received` is an assistant's message as the provider sent it, whole: with what the model thought, signatures and
    other members that only the provider reads, and that it wants back as they were. A user's message may have
    `attachments`: images and files, each with its `media_type` and its `data` in base64.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    received: dict[str, Any] | None = field(default=None, hash=False)
    attachments: tuple[dict[str, str], ...] = field(default=(), hash=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """How the model is to answer; None is the model's own default. A model that refuses one is asked without it.

    `thinking` is "off", or how much the model thinks: "minimal", "low", "medium", "high" or "max".
    """

    thinking: str | None = None
    parallel_tool_calls: bool | None = None
    cache: bool = True


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A conversation to be continued by the model.

    `tool_choice` is "auto", "none", "required" or the name of a tool; `temperature` None is the provider's default;
    `json_schema` is that of the answer, an object, where the answer is to be JSON.
    """

    messages: tuple[PromptMessage, ...]
    tools: tuple[ChatTool, ...] = ()
    max_output_tokens: int
    temperature: float | None = None
    tool_choice: str = "auto"
    json_schema: dict[str, Any] | None = field(default=None, hash=False)
    options: ModelOptions = ModelOptions()

    @classmethod
    def single(
        cls,
        *,
        system: str,
        user: str,
        max_output_tokens: int,
        json_schema: dict[str, Any] | None = None,
        temperature: float = 0.0,
    ) -> Self:
        """Return one question, without tools."""
        return cls(
            messages=(PromptMessage(role="system", content=system), PromptMessage(role="user", content=user)),
            max_output_tokens=max_output_tokens,
            json_schema=json_schema,
            temperature=temperature,
        )

    @property
    def system(self) -> str:
        """What the system says."""
        return "\n\n".join(message.content for message in self.messages if message.role == "system" and message.content)

    @property
    def user(self) -> str:
        """What the user said last."""
        return next((message.content for message in reversed(self.messages) if message.role == "user"), "")

    @cached_property
    def sha256(self) -> str:
        """The hash of everything that determines the answer, under which the answer is stored for recovery."""
        messages = [
            [
                message.role,
                message.content,
                stored_calls(message.tool_calls),
                message.tool_call_id,
                message.received,
                message.attachments,
            ]
            for message in self.messages
        ]
        tools = [[tool.name, tool.description, tool.parameters] for tool in self.tools]
        settings = [self.max_output_tokens, self.temperature, self.tool_choice, self.json_schema, asdict(self.options)]
        canonical = json.dumps(
            ["chat", messages, tools, *settings],
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def asked_text(self) -> str:
        """Everything said so far, as one text."""
        return "\n".join(text for message in self.messages for text in (message.content, *_raw(message.tool_calls)))

    @cached_property
    def estimated_input_tokens(self) -> int:
        """A cautious estimate of the tokens of the messages and tools."""
        tools = json.dumps([[tool.name, tool.description, tool.parameters] for tool in self.tools])
        files = sum(_count_tokens(attachment) for message in self.messages for attachment in message.attachments)
        around = files + TOKENS_AROUND * (len(self.messages) + len(self.tools))
        return estimate_tokens(self.asked_text) + estimate_tokens(tools) + around


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatAnswer:
    """A model's answer, which may call tools.

    `finish_reason` is "stop", "tool_calls", "length" (cut off by the limit of output), "context" (cut off by the end of
    the window), "refusal" (by the model), "content_filter" (by the provider), "pause" (it wants to go on), "error", or
    what the provider says instead. `text` can be stored in PostgreSQL: invalid characters are replaced by U+FFFD.
    `received` is the answer as the provider sent it (`PromptMessage.received`).
    """

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    model: str
    latency_ms: float
    tool_calls: tuple[ToolCall, ...] = ()
    received: dict[str, Any] | None = field(default=None, hash=False)

    @property
    def message(self) -> PromptMessage:
        """The answer as the next message of the conversation."""
        return PromptMessage(role="assistant", content=self.text, tool_calls=self.tool_calls, received=self.received)


def _count_tokens(attachment: dict[str, str]) -> int:
    """Estimate what an image or a file takes of the window, high; providers count pixels and pages."""
    if attachment["media_type"].startswith("image/"):
        return TOKENS_OF_IMAGE
    if attachment["media_type"].startswith("text/"):
        # Base64 has four characters for three bytes; a token for three bytes is estimated.
        return len(attachment["data"]) // 4
    return max(TOKENS_OF_IMAGE, len(attachment["data"]) // 20)


def id_of_call(request_sha256: str, index: int) -> str:
    """Return an id for a call that was given none; the same answer has the same ids again."""
    return f"call_{request_sha256[:12]}_{index}"


def stored_calls(calls: Iterable[ToolCall]) -> list[dict[str, str]]:
    """Return calls as JSON; `read_calls` is the way back."""
    return [{"id": call.id, "name": call.name, "arguments": call.raw_arguments} for call in calls]


def read_calls(stored: Iterable[dict[str, str]]) -> tuple[ToolCall, ...]:
    """Return calls from what `stored_calls` gave."""
    return tuple(ToolCall.read(id=call["id"], name=call["name"], raw_arguments=call["arguments"]) for call in stored)


def storable_json(value: Any) -> Any:
    """Return a value with `storable` texts and names."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): storable_json(item) for name, item in value.items()}
    return [storable_json(item) for item in value] if isinstance(value, list) else value


def _raw(calls: Iterable[ToolCall]) -> list[str]:
    return [f"{call.name} {call.raw_arguments}" for call in calls]
