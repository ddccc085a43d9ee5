"""The order of a conversation that every server, and every template of a local model, accepts."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from reflection.llm.chat import PromptMessage

GO_ON = "Go on."
EARLIER = "(The conversation began earlier.)"
ENDED = "(My turn ended here.)"
NOT_ANSWERED = "There is no result: the run ended before this call was answered."


def arrange(messages: Iterable[PromptMessage]) -> Iterator[PromptMessage]:
    """Yield messages so that servers take them, whatever happened in the conversation.

    Results follow the calls that they answer, each call has one, users and assistants take turns, no message is empty,
    and the last one is not the assistant's. What is added says what is true.
    """
    last = ""
    for message in _joined(_with_results(messages)):
        if message.role == "assistant":
            if not last:
                yield PromptMessage(role="user", content=EARLIER)
        elif message.role == "user" and last == "tool":
            yield PromptMessage(role="assistant", content=ENDED)
        yield message
        last = message.role
    if last in ("assistant", ""):
        yield PromptMessage(role="user", content=GO_ON)


def _with_results(messages: Iterable[PromptMessage]) -> Iterator[PromptMessage]:
    """Yield messages with the results right after the calls, in the order of the calls."""
    messages = [message for message in messages if message.role != "system"]
    # Some servers use an id again in each answer.
    results: dict[str, deque[PromptMessage]] = {}
    for message in messages:
        if message.role == "tool":
            results.setdefault(message.tool_call_id, deque()).append(message)
    for message in messages:
        if message.role == "tool":
            continue
        # Providers refuse empty messages.
        if message.role == "assistant" and not (message.content.strip() or message.tool_calls):
            continue
        yield message
        for call in message.tool_calls:
            answers = results.get(call.id)
            # Providers refuse a call without a result, even if the run ended in between.
            missing = PromptMessage(role="tool", content=NOT_ANSWERED, tool_call_id=call.id)
            yield answers.popleft() if answers else missing


def _joined(messages: Iterable[PromptMessage]) -> Iterator[PromptMessage]:
    """Yield messages in which neighbours of the same speaker are one."""
    waiting: PromptMessage | None = None
    for message in messages:
        is_text = message.role in ("user", "assistant") and not message.tool_calls
        if waiting is not None and is_text and message.role == waiting.role and not waiting.tool_calls:
            texts = [text for text in (waiting.content, message.content) if text]
            attachments = (*waiting.attachments, *message.attachments)
            waiting = replace(waiting, content="\n\n".join(texts), attachments=attachments, received=None)
            continue
        if waiting is not None:
            yield waiting
        waiting = message
    if waiting is not None:
        yield waiting
