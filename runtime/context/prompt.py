"""What the model reads at a step: built from rows alone, so that the same rows always make the same bytes."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from reflection.llm.chat import ChatRequest, ChatTool, ModelOptions, PromptMessage, read_calls
from reflection.llm.turns import arrange
from runtime.limits import ModelSettings
from runtime.models.conversations import Compaction, Message
from runtime.models.runs import Run, Step, StopReason
from runtime.tools.catalogue import core_tools

SCHEMA = "Your final answer is a JSON object, and nothing else, that fits this JSON schema: "
READ_WITH = "with read_result"  # in what says that a result is not whole
UNTAKEN = "\n\n(The files of this message are left out, since the model did not take them.)"
SUMMARY = "Summary of what was said before. The messages themselves can be found with conversation_search.\n\n"


def window_of(run: Run) -> int:
    """Return the tokens of the model's context window: those of the agent, or fewer where the model said so."""
    learnt = run.conversation.window_tokens
    configured = run.revision.window_tokens
    return configured if learnt is None else min(configured, learnt)


def output_of(run: Run) -> int:
    """Return the tokens that an answer may have: the agent's limit, or less in a window that is smaller than set."""
    if run.conversation.window_tokens is None:
        return run.revision.max_output_tokens
    return max(1, min(run.revision.max_output_tokens, window_of(run) // 4))


def write_request(
    run: Run,
    messages: Iterable[Message],
    *,
    compaction: Compaction | None,
    max_output_tokens: int | None = None,
    head: str | None = None,
) -> ChatRequest:
    """Return what the model is asked when it reads these messages, which `compaction` shortens.

    `head` is that of the run unless it is given.
    """
    transcript, messages = [], list(messages)
    untaken = _find_untaken(messages)
    if compaction is not None and compaction.summary:
        transcript.append(PromptMessage(role="user", content=SUMMARY + compaction.summary))
    # A result has only the id of its call, and the line that stands for it names the tool.
    names: dict[str, str] = {}
    masked_through = compaction.masked_through if compaction else 0
    for message in messages:
        if message.role == Message.Role.ASSISTANT and message.effect_id is not None:
            # What a tool told the user stands in its call already.
            continue
        for call in message.tool_calls:
            names[call["id"]] = call["name"]
        masked = message.seq <= masked_through
        written = _write(message, tool=names.get(message.tool_call_id, ""), masked=masked)
        transcript.append(
            replace(written, content=written.content + UNTAKEN, attachments=()) if message in untaken else written
        )
    pinned = read_tools(run.tools)
    settings = ModelSettings.model_validate(run.revision.model_settings)
    return ChatRequest(
        messages=(
            PromptMessage(role="system", content=with_schema(run.head if head is None else head, settings)),
            *arrange(transcript),
        ),
        tools=(*pinned, *_find_named_tools(transcript, pinned)),
        max_output_tokens=max_output_tokens or output_of(run),
        temperature=run.revision.temperature,
        **asked_with(settings),
    )


def _find_untaken(messages: Sequence[Message]) -> list[Message]:
    """Return the messages whose files the model did not take: their run failed before the model answered.

    Sent again, they would let every later message fail too. A run that was resumed sends its own again.
    """
    unanswered: dict[Any, Message] = {}
    # The files of the newest message have not been sent yet.
    newest = max((message.seq for message in messages if message.role == Message.Role.USER), default=0)
    for message in messages:
        if message.attachments and message.run_id and message.seq < newest:
            unanswered[message.run_id] = message
        elif message.role == Message.Role.ASSISTANT:
            unanswered.pop(message.run_id, None)
    if not unanswered:
        return []
    failed = Run.objects.filter(pk__in=unanswered, stop_reason=StopReason.MODEL_FAILED)
    return [unanswered[id] for id in failed.values_list("pk", flat=True)]


def _find_named_tools(said: Sequence[PromptMessage], offered: Sequence[ChatTool]) -> list[ChatTool]:
    """Return the tools for reading that a text of ERL sends the agent to and that it was not given."""
    mentions = {
        "conversation_search": bool(said) and said[0].content.startswith(SUMMARY),
        "read_result": any(READ_WITH in message.content for message in said if message.role == "tool"),
    }
    missing = [name for name, is_named in mentions.items() if is_named and name not in {tool.name for tool in offered}]
    return [core_tools()[name].for_model for name in missing]


def with_schema(head: str, settings: ModelSettings) -> str:
    """Return the head of a prompt that also says what the reply has to be, for models that take no schema."""
    if settings.output_schema is None:
        return head
    schema = json.dumps(settings.output_schema, ensure_ascii=False, separators=(",", ":"))
    return "\n\n".join(part for part in (head, SCHEMA + schema) if part)


def asked_with(settings: ModelSettings) -> dict[str, Any]:
    """Return what an agent's settings say about each question to the model, as members of a `ChatRequest`."""
    return {
        "tool_choice": settings.tool_choice,
        "json_schema": settings.output_schema,
        "options": ModelOptions(
            thinking=settings.thinking, parallel_tool_calls=settings.parallel_tool_calls, cache=settings.cache
        ),
    }


def rebuild_request(step: Step) -> ChatRequest:
    """Return what the model was asked at a step that was taken."""
    run, compaction = step.run, step.compaction
    since = compaction.summarised_through if compaction else 0
    read = Message.objects.read_at(step.started_at).filter(conversation_id=run.conversation_id)
    messages = read.filter(seq__gt=since, seq__lte=step.through).order_by("seq")
    tokens = step.max_output_tokens
    return write_request(run, messages, compaction=compaction, max_output_tokens=tokens, head=step.head)


def write_prompt(request: ChatRequest) -> bytes:
    """Return a request as JSON, with sorted names: the bytes that `Step.prompt_sha256` is the hash of."""
    messages: list[dict[str, Any]] = []
    for chat_message in request.messages:
        message: dict[str, Any] = {"role": chat_message.role, "content": chat_message.content}
        if chat_message.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.sent_arguments} for call in chat_message.tool_calls
            ]
        if chat_message.tool_call_id:
            message["tool_call_id"] = chat_message.tool_call_id
        if chat_message.attachments:
            message["attachments"] = [
                {
                    "media_type": attachment["media_type"],
                    "sha256": hashlib.sha256(attachment["data"].encode()).hexdigest(),
                }
                for attachment in chat_message.attachments
            ]
        if chat_message.received is not None:
            message["received"] = chat_message.received
        messages.append(message)
    body = {
        "messages": messages,
        "tools": write_tools(request.tools),
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "tool_choice": request.tool_choice,
    }
    if request.json_schema is not None:
        body["json_schema"] = request.json_schema
    if request.options != ModelOptions():
        body["options"] = asdict(request.options)
    return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def hash_prompt(request: ChatRequest) -> str:
    return hashlib.sha256(write_prompt(request)).hexdigest()


def write_tools(tools: Sequence[ChatTool]) -> list[dict[str, Any]]:
    """Return tools as JSON; `read_tools` is the way back."""
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]


def read_tools(stored: Iterable[dict[str, Any]]) -> tuple[ChatTool, ...]:
    return tuple(ChatTool(**tool) for tool in stored)


def write_mask(message: Message, *, tool: str) -> str:
    """Return the line that stands for an old result."""
    return f"[Result {message.seq} of {tool}, {len(message.content):,} characters. Read it {READ_WITH}.]"


def _write(message: Message, *, tool: str, masked: bool) -> PromptMessage:
    content = message.content
    match message.role:
        case Message.Role.TOOL:
            # The line that stands for a short result would be longer than the result.
            if masked and len(mask := write_mask(message, tool=tool)) < len(content):
                content = mask
            return PromptMessage(role="tool", content=content, tool_call_id=message.tool_call_id)
        case Message.Role.ASSISTANT:
            return PromptMessage(
                role="assistant",
                content=content,
                tool_calls=read_calls(message.tool_calls),
                received=message.received,
            )
        case _:
            return PromptMessage(role="user", content=content, attachments=tuple(message.attachments or ()))
