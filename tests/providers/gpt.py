"""OpenAI's newest models behind chat completions: they think, and take tools only where they do not."""

from collections.abc import Iterator
from typing import Any

from tests.providers.imitation import Refusal, Turn
from tests.providers.openai_chat import ChatCompletions


class Gpt(ChatCompletions):
    name, kind, model = "OpenAI, chat completions", "openai-chat", "gpt-5.6"
    insists_on = "tools only without an effort, `max_completion_tokens`, no temperature"
    refused_as = "refused"

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        if body.get("tools") and body.get("reasoning_effort") != "none":
            yield Refusal(
                message="Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. "
                "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                param="reasoning_effort",
                is_expected=True,
            )
        if "max_tokens" in body:
            yield Refusal(
                message="Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                param="max_tokens",
                code="unsupported_parameter",
                is_expected=True,
            )
        if body.get("temperature", 1) != 1:
            yield Refusal(
                message=f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
                "Only the default (1) value is supported.",
                param="temperature",
                code="unsupported_value",
                is_expected=True,
            )

    def write(self, turn: Turn) -> dict[str, Any]:
        answer = super().write(turn)
        if turn.ending == "refused":
            choice = answer["choices"][0]
            choice["message"] |= {"content": None, "refusal": turn.text or "I can't help with that."}
            choice["finish_reason"] = "stop"
        return answer
