"""Services that speak chat completions with rules of their own."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.providers.imitation import Refusal, Turn
from tests.providers.openai_chat import ChatCompletions, refuse_prefill, refuse_tools
from tests.scripted_streams import write_event


class DeepSeek(ChatCompletions):
    name, kind, model, path = "DeepSeek", "deepseek", "deepseek-v4-pro", ""
    insists_on = "`reasoning_content` on every assistant message that calls tools"
    thinks = True
    thought_member = "reasoning_content"
    refused_as = "filtered"
    vendor_members = frozenset({"thinking"})

    def __init__(self) -> None:
        super().__init__()
        self.thoughts: dict[str, str] = {}  # by the first call that they led to

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        for message in body["messages"]:
            calls = message.get("tool_calls") or ()
            wanted = self.thoughts.get(calls[0]["id"]) if calls else None
            sent = message.get("reasoning_content")
            is_strange = self.is_second and wanted is None
            if calls and (sent is None if is_strange else sent != wanted):
                words = "The `reasoning_content` in the thinking mode must be passed back to the API."
                yield Refusal(message=words, code="invalid_request_error")

    def write(self, turn: Turn) -> dict[str, Any]:
        answer = super().write(turn)
        message = answer["choices"][0]["message"]
        for call in message.get("tool_calls", ()):
            self.thoughts[call["id"]] = message["reasoning_content"]
        return answer


class Groq(ChatCompletions):
    name, kind, model, path = "Groq", "groq", "openai/gpt-oss-120b", "/openai/v1"
    insists_on = "no members that it does not know"
    thinks = True
    thought_member = "reasoning"
    refused_as = "filtered"
    members = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "reasoning"})

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        for index, message in enumerate(body["messages"]):
            for name in sorted({*message} - self.members):
                yield Refusal(
                    message=f"'messages.{index}' : for 'role:{message['role']}' the following must be satisfied"
                    f"[('messages.{index}' : property '{name}' is unsupported)]"
                )
        if "parallel_tool_calls" in body and not body.get("tools"):
            yield Refusal(message="`parallel_tool_calls` is only allowed when `tools` are specified")

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message="Please reduce the length of the messages or completion.",
            param="messages",
            code="context_length_exceeded",
            is_expected=True,
        )


class LaPlateforme(ChatCompletions):
    """Mistral's own service, with Mistral's own format of answers; ids of calls are nine letters and digits."""

    name, kind, model = "Mistral", "mistral", "mistral-large-latest"
    insists_on = "ids of nine characters, no user right after a result, no prefill"
    refused_as = "filtered"

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        from mistralai.client.models import ChatCompletionRequest

        self.judge.model(ChatCompletionRequest, body)

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        messages = body["messages"]
        yield from refuse_tools(body)
        yield from refuse_long_ids(messages, is_second=self.is_second)
        words = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        yield from refuse_prefill(messages, words)
        for before, message in pairwise(messages):
            if (before["role"], message["role"]) == ("tool", "user"):
                yield Refusal(message="Unexpected role 'user' after role 'tool'")
            if message["role"] == "system":
                yield Refusal(message=f"Unexpected role 'system' after role '{before['role']}'")
            if message["role"] == "assistant" and not message.get("content") and not message.get("tool_calls"):
                yield Refusal(message="Assistant message must have either content or tool_calls, but not none.")
        called = sum(len(message.get("tool_calls") or ()) for message in messages)
        if called != sum(message["role"] == "tool" for message in messages):
            yield Refusal(message="Not the same number of function calls and responses")

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message=f"Prompt contains {tokens} tokens and 0 draft tokens, too large for model with {window} maximum "
            "context length",
            is_expected=True,
        )

    def write_id(self) -> str:
        return f"m{next(self.numbers):08d}"

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        return whole_events(answer)

    def write_refusal(self, refusal: Refusal) -> Any:
        named = {"object": "error", "message": refusal.message, "type": refusal.kind, "param": None, "code": "3051"}
        return named | {"raw_status_code": refusal.status}


def whole_events(answer: dict[str, Any], *, with_index: bool = True) -> Iterator[str]:
    """Return an answer as events in which each call is whole; without an index, all of them have the first one's."""
    choice = answer["choices"][0]
    message = choice["message"]
    deltas = [{name: message[name]} for name in ("reasoning", "content") if message.get(name)]
    for index, call in enumerate(message.get("tool_calls", ())):
        deltas.append({"content": "", "tool_calls": [{"index": index if with_index else 0, **call}]})
    choices = [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {"content": ""}, "finish_reason": choice["finish_reason"]})
    for each in choices:
        yield write_event(answer | {"object": "chat.completion.chunk", "choices": [each], "usage": None})
    yield write_event(answer | {"object": "chat.completion.chunk", "choices": []})
    yield "data: [DONE]\n\n"


def refuse_long_ids(messages: list[dict[str, Any]], *, is_second: bool) -> Iterator[Refusal]:
    """Refuse ids of calls that are not nine letters and digits."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    ids += [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    for id in ids:
        if len(id) != 9 or not id.isalnum():
            message = f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
            yield Refusal(message=message, code="3280", is_expected=is_second)
