"""Servers of one's own, and the chat templates of models that they serve, imitated by their rules."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.providers.chat_vendors import refuse_long_ids, whole_events
from tests.providers.imitation import Refusal, Turn
from tests.providers.openai_chat import ChatCompletions, refuse_neighbours, refuse_prefill

ALTERNATE = "conversation roles must alternate user/assistant/user/assistant/..."


class Local(ChatCompletions):
    """A server of one's own. It has no filter: a model that will not do something says so."""

    def write(self, turn: Turn) -> dict[str, Any]:
        return super().write(Turn(text=turn.text, calls=turn.calls) if turn.ending == "refused" else turn)


class Ollama(Local):
    name, kind, model = "Ollama", "ollama", "qwen3:8b"
    insists_on = "nothing; its calls come whole, with one index for all"
    thinks = True
    thought_member = "reasoning"

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        message = "the input length exceeds the context length"
        return Refusal(message=message, kind="api_error", is_expected=True)

    def write_id(self) -> str:
        return f"call_{next(self.numbers):08x}"

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        return whole_events(answer, with_index=False)


class Vllm(Local):
    name, kind, model = "vLLM", "vllm", "openai/gpt-oss-20b"
    insists_on = "room for the answer beside the prompt"
    thinks = True
    thought_member = "reasoning"

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        tokens, wanted = self.count_tokens(body), body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if self.window is not None and tokens < self.window < tokens + wanted:
            yield Refusal(
                message=f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum context "
                f"length is {self.window} tokens and your request has {tokens} input tokens ({wanted} > "
                f"{self.window} - {tokens}).",
                kind="BadRequestError",
                is_expected=True,
            )

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message=f"This model's maximum context length is {window} tokens. However, your request has {tokens} input "
            "tokens. Please reduce the length of the input messages.",
            kind="BadRequestError",
            is_expected=True,
        )

    def write_id(self) -> str:
        return f"chatcmpl-tool-{next(self.numbers):032x}"


class LlamaCpp(Local):
    name, kind, model = "llama.cpp", "llamacpp", "ggml-org/gpt-oss-20b-GGUF"
    insists_on = "no prefill"
    thinks = True
    thought_member = "reasoning_content"

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        words = "Assistant response prefill is incompatible with enable_thinking."
        yield from refuse_prefill(body["messages"], words)

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message=f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try "
            "increasing it",
            kind="exceed_context_size_error",
            is_expected=True,
            more={"n_prompt_tokens": tokens, "n_ctx": window},
        )

    def write_id(self) -> str:
        return f"{next(self.numbers):032x}"

    def write_refusal(self, refusal: Refusal) -> Any:
        error = {"code": refusal.status, "message": refusal.message, "type": refusal.kind}
        return {"error": error | refusal.more}


class Template(Vllm):
    """A model's own template, behind a server that renders it."""

    kind = "openai-compatible"
    thinks = False


class MistralTemplate(Template):
    name, model = "Mistral's template", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"
    insists_on = "alternation, ids of nine characters, no user right after a result"

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        messages = body["messages"]
        yield from refuse_neighbours(messages, f"After the optional system message, {ALTERNATE}")
        yield from refuse_long_ids(messages, is_second=self.is_second)
        if any(pair == ("tool", "user") for pair in _pairs(messages)):
            yield Refusal(message="Unexpected role 'user' after role 'tool'")

    def write_id(self) -> str:
        return f"m{next(self.numbers):08d}"


class QwenTemplate(Template):
    name, model = "Qwen's template", "Qwen/Qwen3.5-9B"
    insists_on = "one system message, at the beginning, and a user's"
    thinks = True
    thought_member = "reasoning"

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        roles = [message["role"] for message in body["messages"]]
        if "system" in roles[1:]:
            yield Refusal(message="System message must be at the beginning.")
        if "user" not in roles:
            yield Refusal(message="No user query found in messages.")


class GemmaTemplate(Template):
    name, model = "Gemma's template", "google/gemma-3-12b-it"
    insists_on = "alternation, no system message"

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        messages = body["messages"]
        if any(message["role"] == "system" for message in messages):
            yield Refusal(message="System role not supported", is_expected=True)
        yield from refuse_neighbours(messages, ALTERNATE.capitalize())


def _pairs(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["role"], two["role"]) for one, two in pairwise(messages)]
