"""Anthropic's Messages with a model that thinks: blocks come back signed, and turns alternate."""

from collections.abc import Iterator
from typing import Any

from tests.providers.imitation import THOUGHT, Imitation, Refusal, Turn, refuse_names, refuse_schemas, signature
from tests.scripted_streams import anthropic_events

REASONS = {"": "end_turn", "cut": "max_tokens", "refused": "refusal", "paused": "pause_turn"}
THOUGHTS = ("thinking", "redacted_thinking")


class AnthropicMessages(Imitation):
    name, kind, model, path = "Anthropic", "anthropic", "claude-opus-5-5", ""
    insists_on = "signed thinking blocks, results right after calls, alternation, no prefill"
    thinks = True
    refused_as = "refused"

    def __init__(self) -> None:
        super().__init__()
        self.signed: dict[str, str] = {}  # thoughts by signature

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        self.judge.anthropic(body, is_beta="beta=true" in path)

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        messages = [{**message, "content": _blocks(message)} for message in body["messages"]]
        yield from refuse_schemas(
            [tool["input_schema"] for tool in body.get("tools") or ()], "tools.0.custom.input_schema"
        )
        yield from self._refuse_order(messages)
        yield from self._refuse_thoughts(messages)
        blocks = [block for message in messages for block in message["content"]]
        yield from refuse_names(block["name"] for block in blocks if block["type"] == "tool_use")
        if body.get("temperature") is not None:
            yield Refusal(message="`temperature` is deprecated for this model.", is_expected=True)

    def _refuse_order(self, messages: list[dict[str, Any]]) -> Iterator[Refusal]:
        if messages[0]["role"] != "user":
            yield Refusal(message='messages: first message must use the "user" role')
        if messages[-1]["role"] == "assistant":
            yield Refusal(
                message="This model does not support assistant message prefill. The conversation must end with a user "
                "message."
            )
        for index, message in enumerate(messages):
            before: dict[str, Any] = messages[index - 1] if index else {"role": "", "content": []}
            if before["role"] == message["role"]:
                yield Refusal(
                    message='messages: roles must alternate between "user" and "assistant", but found multiple '
                    f'"{message["role"]}" roles in a row'
                )
            asked = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
            answered = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
            if missing := [id for id in asked if id not in answered]:
                yield Refusal(
                    message=f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately "
                    f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
                    "in the next message."
                )
            if strange := [id for id in answered if id not in asked]:
                yield Refusal(
                    message=f"messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{strange[0]}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                    "previous message."
                )
            if not message["content"]:
                yield Refusal(message=f"messages.{index}: all messages must have non-empty content")
            if any(block["type"] == "text" and not block["text"].strip() for block in message["content"]):
                yield Refusal(message="messages: text content blocks must contain non-whitespace text")

    def _refuse_thoughts(self, messages: list[dict[str, Any]]) -> Iterator[Refusal]:
        for index, message in enumerate(messages):
            kinds = [block["type"] for block in message["content"]]
            is_strange = self.is_second and index < _last_question(messages)
            if message["role"] == "assistant" and "tool_use" in kinds and kinds[0] not in THOUGHTS and not is_strange:
                yield Refusal(
                    message=f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                    f"`{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must start with a thinking "
                    "block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
                )
            for place, block in enumerate(message["content"]):
                if block["type"] != "thinking":
                    continue
                if block.get("signature") not in self.signed:
                    yield Refusal(message=f"messages.{index}.content.{place}: Invalid `signature` in `thinking` block")
                elif self.signed[block["signature"]] != block["thinking"]:
                    yield Refusal(
                        message=f"messages.{index}.content.{place}: `thinking` or `redacted_thinking` blocks in the "
                        "latest assistant message cannot be modified. These blocks must remain as they were in the "
                        "original response."
                    )

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(message=f"prompt is too long: {tokens} tokens > {window} maximum", is_expected=True)

    def write(self, turn: Turn) -> dict[str, Any]:
        number = next(self.numbers)
        thought = f"{THOUGHT} ({number})"
        signed = signature(f"only Anthropic reads this {number}")
        self.signed[signed] = thought
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": thought, "signature": signed}]
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        content += [
            {"type": "tool_use", "id": f"toolu_{number:022d}{index}", "name": name, "input": arguments}
            for index, (name, arguments) in enumerate(turn.calls)
        ]
        reason = "tool_use" if turn.calls and not turn.ending else REASONS[turn.ending]
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [] if turn.ending == "refused" else content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1200, "output_tokens": 90},
        }

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        return anthropic_events(answer)

    def write_refusal(self, refusal: Refusal) -> Any:
        return {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}, "request_id": "req_1"}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _last_question(messages: list[dict[str, Any]]) -> int:
    """Return where the user spoke last: only what follows has to have its thoughts."""
    questions = [index for index, message in enumerate(messages) if message["content"][0]["type"] == "text"]
    return max(index for index in questions if messages[index]["role"] == "user")
