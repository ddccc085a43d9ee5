"""Services in front of the models of others: OpenRouter, and OpenAI's models at Azure."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.providers.imitation import Refusal, Turn, signature
from tests.providers.openai_chat import ChatCompletions
from tests.scripted_answers import Exchange
from tests.scripted_streams import openai_events, write_event

COMMENT = ": OPENROUTER PROCESSING\n\n"  # sent while the model has nothing to say yet


class OpenRouter(ChatCompletions):
    """What goes wrong before a model is asked has a status; what goes wrong later is said in an answer with 200."""

    name, kind, model, path = "OpenRouter", "openrouter", "google/gemini-3.1-pro-preview", "/api/v1"
    insists_on = "`reasoning_details` as they were, in their order"
    thinks = True
    thought_member = "reasoning"
    refused_as = "filtered"
    vendor_members = frozenset({"reasoning", "usage", "provider"})

    def __init__(self) -> None:
        super().__init__()
        self.details: dict[str, list[dict[str, Any]]] = {}  # by the first call that they led to

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        for index, message in enumerate(body["messages"]):
            calls: list[dict[str, Any]] = message.get("tool_calls") or []
            wanted = self.details.get(calls[0]["id"]) if calls else None
            sent = [_without_nulls(detail) for detail in message.get("reasoning_details") or ()]
            if wanted is not None and sent != wanted:
                yield behind(
                    "Gemini models require OpenRouter reasoning details to be preserved in each request. Upstream "
                    "error: Function call is missing a thought_signature in functionCall parts. Additional data, "
                    f"function call `default_api:{calls[0]['function']['name']}`, position {index}."
                )

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message=f"This endpoint's maximum context length is {window} tokens. However, you requested about {tokens} "
            f"tokens ({tokens} of text input). Please reduce the length of either one, or use the context-compression "
            "plugin to compress your prompt automatically.",
            is_expected=True,
            more={"metadata": {"provider_name": None}},
        )

    def write_call(self, index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"index": index, **super().write_call(index, name, arguments)}

    def write(self, turn: Turn) -> dict[str, Any]:
        answer = super().write(turn)
        answer["provider"] = "Google AI Studio"
        choice = answer["choices"][0]
        choice["native_finish_reason"] = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(
            choice["finish_reason"], "STOP"
        )
        message = choice["message"]
        thought = message["reasoning"]
        message["reasoning_details"] = [
            {"type": "reasoning.text", "text": thought, "format": "google-gemini-v1", "index": 0},
            {
                "type": "reasoning.encrypted",
                "data": signature(thought),
                "id": f"tool_{next(self.numbers)}",
                "format": "google-gemini-v1",
                "index": 1,
            },
        ]
        if turn.calls:
            self.details[message["tool_calls"][0]["id"]] = message["reasoning_details"]
        return answer

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        choice = answer["choices"][0]
        message = choice["message"]
        frame = answer | {"object": "chat.completion.chunk"}
        frame.pop("usage")
        thought = {"reasoning": message["reasoning"], "reasoning_details": [message["reasoning_details"][0]]}
        signed = {"reasoning_details": [message["reasoning_details"][1]]}
        deltas = [thought, signed, *({"tool_calls": [call]} for call in message.get("tool_calls", ()))]
        if message["content"]:
            deltas.append({"content": message["content"]})
        yield COMMENT
        for delta in deltas:
            yield write_event(frame | {"choices": [_piece({"role": "assistant", "content": "", **delta})]})
            yield COMMENT
        ended = _piece({"role": "assistant", "content": ""}) | {
            "finish_reason": choice["finish_reason"],
            "native_finish_reason": choice["native_finish_reason"],
        }
        yield write_event(frame | {"choices": [ended]})
        yield write_event(frame | {"choices": [], "usage": answer["usage"]})
        yield "data: [DONE]\n\n"

    def send_refusal(self, exchange: Exchange, refusal: Refusal) -> None:
        if refusal.status < 500:
            super().send_refusal(exchange, refusal)
        elif self.is_stream(exchange):
            answer = self.write(Turn(text="It is"))
            begun = [*self.write_events(answer, exchange.request.body)][:-3]
            failed = {name: answer[name] for name in ("id", "created", "model", "provider")}
            failed |= {"object": "chat.completion.chunk", **self.write_refusal(refusal)}
            failed["choices"] = [_piece({"content": ""}) | {"finish_reason": "error"}]
            exchange.start_stream()
            for event in (*begun, write_event(failed), "data: [DONE]\n\n"):
                exchange.write_event(event)
            exchange.end_stream()
        else:
            exchange.send(200, json.dumps(self.write_refusal(refusal)).encode())

    def write_refusal(self, refusal: Refusal) -> Any:
        return {"error": {"message": refusal.message, "code": refusal.status} | refusal.more, "user_id": "user_2x"}


def behind(words: str, *, status: int = 400, is_expected: bool = False) -> Refusal:
    """Refuse as the provider behind OpenRouter did, whose words are in the metadata."""
    metadata = {"raw": words, "provider_name": "Google AI Studio", "is_byok": False}
    more = {"metadata": metadata}
    return Refusal(message="Provider returned error", status=status, is_expected=is_expected, more=more)


def _without_nulls(detail: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if value is not None}


def _piece(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": None, "native_finish_reason": None, "logprobs": None}


SAFE = {"hate": {"filtered": False, "severity": "safe"}, "jailbreak": {"filtered": False, "detected": False}}
VIOLENT = {**SAFE, "violence": {"filtered": True, "severity": "medium"}}
VERSION = "2025-04-01-preview"
FILTERED = Refusal(
    message="The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please "
    "modify your prompt and retry. To learn more about our content filtering policies please read our documentation: "
    "https://go.microsoft.com/fwlink/?linkid=2198766",
    code="content_filter",
    param="prompt",
    is_expected=True,
    more={
        "type": None,
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": VIOLENT},
    },
)
TOO_MANY = Refusal(
    message=f"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version {VERSION} have exceeded "
    "token rate limit of your current OpenAI S0 pricing tier. Please retry after 7 seconds. Please go here: "
    "https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit.",
    status=429,
    code="429",
    is_expected=True,
    headers={"Retry-After": "7", "retry-after-ms": "7000"},
)


class Azure(ChatCompletions):
    """OpenAI's models at Azure, by a dated version of its API: the model is the name of a deployment, in the path."""

    name, kind, model = "Azure OpenAI", "azure", "our-gpt-4.1"
    path = f"/openai/deployments/our-gpt-4.1/chat/completions?api-version={VERSION}"  # as the portal shows it
    insists_on = "the deployment in the path, a version of the API"
    refused_as = "filtered"

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        super().look_at(path, body)
        parts = urlsplit(path)
        if not parts.path.endswith(f"/openai/deployments/{self.model}/chat/completions"):
            self.judge.faults.append(f"The API deployment for this resource does not exist: {parts.path}")
        if parse_qs(parts.query) != {"api-version": [VERSION]}:
            self.judge.faults.append(f"Resource not found: {parts.query}")

    def write(self, turn: Turn) -> dict[str, Any]:
        answer = super().write(turn)
        answer["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": SAFE}]
        answer["choices"][0]["content_filter_results"] = VIOLENT if turn.ending == "refused" else SAFE
        return answer

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        nothing = {"id": "", "object": "", "created": 0, "model": ""}
        yield write_event(nothing | {"choices": [], "prompt_filter_results": answer["prompt_filter_results"]})
        *pieces, ended = openai_events(answer, with_usage=True)
        yield from pieces
        # Where filters work beside the stream, what they found comes in choices without a delta.
        found = {"index": 0, "finish_reason": None, "content_filter_results": SAFE}
        found["content_filter_offsets"] = {"check_offset": 44, "start_offset": 44, "end_offset": 198}
        yield write_event(nothing | {"choices": [found], "usage": None})
        yield ended
