"""Chats in the words of pydantic-ai, which speaks to the providers, and its answers in ours."""

import base64
import json
import re
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import CacheConfig, ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from reflection.llm.base import estimate_tokens, storable
from reflection.llm.chat import ChatAnswer, ChatRequest, PromptMessage, ToolCall, id_of_call, storable_json
from reflection.llm.tool_schemas import write_tool
from reflection.llm.turns import arrange

# The providers' own words for endings that pydantic-ai has no word for
ENDINGS = {
    "refusal": "refusal",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context",
    "content_filter": "content_filter",
    "error": "error",
}
# Gemini's own word for a call that another model made, where it expects its signature
UNSIGNED = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
MOST_TOKENS = 1_000_000_000  # that a question can take: what is more is a mistake of the server
MAX_NAME_CHARACTERS = 64  # of a tool, at OpenAI and others


def write_parameters(request: ChatRequest, *, takes_schema: bool) -> ModelRequestParameters:
    """Return the tools, the instructions and the form of the answer, where the model takes one."""
    schema = request.json_schema if takes_schema else None
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=description,
                parameters_json_schema=parameters,
                strict=False,  # the calls are checked here
            )
            for tool in request.tools
            for description, parameters in [write_tool(tool.description, tool.parameters)]
        ],
        instruction_parts=[InstructionPart(content=request.system)] if request.system else None,
        output_mode="native" if schema else "text",
        output_object=OutputObjectDefinition(name="answer", json_schema=schema) if schema else None,
    )


def write_settings(request: ChatRequest) -> ModelSettings:
    """Return the settings of the model. What it does not know is left out by pydantic-ai or after its refusal."""
    # No retries by the SDK: each is paid for, and the queue decides when to try again.
    settings = ModelSettings(max_tokens=request.max_output_tokens, max_retries=0)
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.tools and request.tool_choice != "auto":
        is_named = request.tool_choice not in ("none", "required")
        settings["tool_choice"] = [request.tool_choice] if is_named else request.tool_choice
    options = request.options
    if options.thinking is not None:
        settings["thinking"] = False if options.thinking == "off" else options.thinking
    if options.parallel_tool_calls is not None and request.tools:
        settings["parallel_tool_calls"] = options.parallel_tool_calls
    # A chat with tools sends the same beginning again and again, so caching it pays off. Of a single question, only
    # the system message is sent again: caching the rest would cost more than it saves.
    if options.cache and (request.tools or request.system):
        settings["cache"] = True if request.tools else CacheConfig(messages=False)
    return settings


def write_messages(request: ChatRequest, *, kind: str, model: Model) -> list[ModelMessage]:
    """Return the conversation in an order that every provider and every template of a local model accepts."""
    # Anthropic refuses ids with other characters, such as those of another provider's calls.
    if kind == "anthropic":
        request = replace(request, messages=tuple(_with_plain_ids(message) for message in request.messages))
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    written: list[ModelMessage] = []
    for message in arrange(request.messages):
        if message.role == "assistant":
            written.append(_write_answer(message, kind=kind, model=model))
            continue
        if not written or not isinstance(written[-1], ModelRequest):
            written.append(ModelRequest(parts=[]))
        if message.role == "tool":
            name = _plain_name(names.get(message.tool_call_id, "tool"))
            part = ToolReturnPart(tool_name=name, content=message.content, tool_call_id=message.tool_call_id)
        else:
            part = UserPromptPart(content=_write_content(message))
        written[-1] = replace(written[-1], parts=[*written[-1].parts, part])
    return written


def _with_plain_ids(message: PromptMessage) -> PromptMessage:
    """Return a message whose ids, perhaps of another provider, have the characters that Anthropic takes."""
    calls = tuple(replace(call, id=_NOT_IN_IDS.sub("_", call.id)) for call in message.tool_calls)
    if calls == message.tool_calls and not _NOT_IN_IDS.search(message.tool_call_id):
        return message
    answer_id = _NOT_IN_IDS.sub("_", message.tool_call_id)
    return replace(message, tool_calls=calls, tool_call_id=answer_id, received=None)


def _plain_name(name: str) -> str:
    """Return the name of a call in the characters that every provider takes: a model may call what no tool is named."""
    return _NOT_IN_IDS.sub("_", name)[:MAX_NAME_CHARACTERS] or "unnamed"


def _with_plain_name(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, ToolCallPart) and (name := _plain_name(part.tool_name)) != part.tool_name:
        return replace(part, tool_name=name)
    return part


def _write_content(message: PromptMessage) -> str | list[UserContent]:
    if not message.attachments:
        return message.content
    files: list[UserContent] = [
        BinaryContent(data=base64.b64decode(attachment["data"]), media_type=attachment["media_type"])
        for attachment in message.attachments
    ]
    return [message.content, *files] if message.content else files


def _write_answer(message: PromptMessage, *, kind: str, model: Model) -> ModelResponse:
    """Return an assistant's message as the provider sent it; of another provider's, words and calls alone."""
    if message.received is not None:
        (received,) = ModelMessagesTypeAdapter.validate_python([message.received])
        if isinstance(received, ModelResponse) and model.accepts_stateless_artifacts(received):
            return replace(received, parts=[_with_plain_name(part) for part in received.parts])
    texts = [TextPart(content=message.content)] if message.content.strip() else []
    calls = [
        ToolCallPart(tool_name=_plain_name(call.name), args=call.sent_arguments, tool_call_id=call.id)
        for call in message.tool_calls
    ]
    if calls and kind == "gemini":
        calls[0] = replace(calls[0], provider_details=UNSIGNED, provider_name=model.system)
    return ModelResponse(parts=[*texts, *calls])


def read_answer(request: ChatRequest, response: ModelResponse, *, model: str, latency_ms: float) -> ChatAnswer:
    """Return a provider's answer in our words, and as it came."""
    response = replace(_with_own_ids(request, response), usage=_whole_usage(response.usage))
    text = storable("".join(part.content for part in response.parts if isinstance(part, TextPart)))
    calls = tuple(
        ToolCall.read(id=part.tool_call_id, name=part.tool_name, raw_arguments=_raw_arguments(part))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    reason = _read_ending(response)
    answered = text + "".join(call.name + call.raw_arguments for call in calls)
    return ChatAnswer(
        text=text,
        tool_calls=calls,
        finish_reason="tool_calls" if calls and reason == "stop" else reason,
        input_tokens=response.usage.input_tokens or request.estimated_input_tokens,
        output_tokens=response.usage.output_tokens or estimate_tokens(answered),
        model=response.model_name or model,
        latency_ms=latency_ms,
        received=_store(response),
    )


def _whole_usage(usage: RequestUsage) -> RequestUsage:
    """Return the tokens that were counted as whole numbers, 0 where there can be no such count."""
    counts = [
        int(count) if isinstance(count, int | float) and 0 < count < MOST_TOKENS else 0
        for count in (usage.input_tokens, usage.output_tokens)
    ]
    return RequestUsage(input_tokens=counts[0], output_tokens=counts[1])


def _with_own_ids(request: ChatRequest, response: ModelResponse) -> ModelResponse:
    """Give each call an id of its own: some servers name none, or one for all, and results are matched by them."""
    taken = {call.id for message in request.messages for call in message.tool_calls}
    parts = []
    for index, part in enumerate(response.parts):
        if isinstance(part, ToolCallPart):
            if not part.tool_call_id or part.tool_call_id in taken or part.tool_call_id.startswith("pyd_ai_"):
                part = replace(part, tool_call_id=id_of_call(request.sha256, index))
            taken.add(part.tool_call_id)
        parts.append(part)
    return replace(response, parts=parts)


def _raw_arguments(part: ToolCallPart) -> str:
    return part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)


def _read_ending(response: ModelResponse) -> str:
    """Return why the model stopped: the provider's own word where it says more than the common ones."""
    details = response.provider_details or {}
    if details.get("refusal"):
        return "refusal"
    own = details.get("finish_reason")
    if isinstance(own, str) and own in ENDINGS:
        return ENDINGS[own]
    if response.state == "suspended":
        return "pause"
    reason = response.finish_reason or (own if isinstance(own, str) else "")
    return "stop" if reason in ("", "tool_call") else reason


def _store(response: ModelResponse) -> dict[str, Any]:
    """Return an answer as JSON that PostgreSQL can hold."""
    (stored,) = ModelMessagesTypeAdapter.dump_python([response])
    stored = storable_json(stored)
    (response,) = ModelMessagesTypeAdapter.validate_python([stored])
    (as_json,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    return dict(as_json)
