"""Gemini 3, by Google's own API and by the one that is compatible with OpenAI's: calls come back signed."""

from collections.abc import Iterator
from typing import Any

from tests.providers.imitation import THOUGHT, Imitation, Refusal, Turn, refuse_schemas, signature
from tests.providers.openai_chat import ChatCompletions
from tests.scripted_answers import Exchange
from tests.scripted_streams import write_event

REASONS = {"": "STOP", "cut": "MAX_TOKENS", "refused": "SAFETY", "paused": "STOP"}
STATUS = "INVALID_ARGUMENT"
UNSIGNED = "skip_thought_signature_validator"  # documented for calls of another model


def refuse_unsigned(name: str, position: int) -> Refusal:
    return Refusal(
        message="Function call is missing a thought_signature in functionCall parts. This is required for tools to "
        "work correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
        f"function call `default_api:{name}` , position {position}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        kind=STATUS,
    )


def write_google_error(refusal: Refusal) -> dict[str, Any]:
    return {"error": {"code": refusal.status, "message": refusal.message, "status": refusal.kind}}


def refuse_google_length(tokens: int, window: int) -> Refusal:
    return Refusal(
        message=f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).",
        kind=STATUS,
        is_expected=True,
    )


class Gemini(Imitation):
    name, kind, model, path = "Gemini", "google", "gemini-3-pro-preview", ""
    insists_on = "the signature of the first call of each answer, results right after calls"
    thinks = True
    refused_as = "filtered"

    def __init__(self) -> None:
        super().__init__()
        self.signatures: set[str] = set()

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        self.judge.google(body)

    def is_stream(self, exchange: Exchange) -> bool:
        return ":streamGenerateContent" in exchange.request.path

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        declared = [each for tool in body.get("tools") or () for each in tool["functionDeclarations"]]
        schemas = [each["parameters_json_schema"] for each in declared]
        yield from refuse_schemas(schemas, "Invalid JSON payload received. tools[0].function_declarations[0]")
        contents = body["contents"]
        if contents[0]["role"] != "user":
            yield Refusal(message="Please ensure that the first content has the role user.", kind=STATUS)
        if contents[-1]["role"] != "user":
            yield Refusal(message="Please ensure that single turn requests end with a user role.", kind=STATUS)
        for index, content in enumerate(contents):
            if not content.get("parts"):
                message = f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
                yield Refusal(message=message, kind=STATUS)
            yield from self._refuse_calls(contents, index)

    def _refuse_calls(self, contents: list[dict[str, Any]], index: int) -> Iterator[Refusal]:
        parts = contents[index].get("parts", [])
        calls = [part for part in parts if "functionCall" in part]
        after = contents[index + 1].get("parts", []) if index + 1 < len(contents) else []
        before = contents[index - 1] if index else {"role": "", "parts": []}
        results = [part for part in after if "functionResponse" in part]
        if len(calls) != len(results):
            yield Refusal(
                message="Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn.",
                kind=STATUS,
            )
        if calls and before["role"] == "model":
            yield Refusal(
                message="Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn.",
                kind=STATUS,
            )
        known = self.signatures | ({signature(UNSIGNED)} if self.is_second else set())
        if calls and _signature(calls[0]) not in known:
            yield refuse_unsigned(calls[0]["functionCall"]["name"], index)
        if strange := {_signature(part) for part in parts} - known - {""}:
            yield Refusal(message=f"Thought signature is not valid: {strange}.", kind=STATUS)

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return refuse_google_length(tokens, window)

    def sign(self) -> str:
        signed = signature(f"only Google reads this {next(self.numbers)}")
        self.signatures.add(signed)
        return signed

    def write(self, turn: Turn) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": THOUGHT, "thought": True}]
        if turn.text:
            parts.append({"text": turn.text} | ({} if turn.calls else {"thoughtSignature": self.sign()}))
        for index, (name, arguments) in enumerate(turn.calls):
            call: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
            parts.append(call if index else call | {"thoughtSignature": self.sign()})  # only the first is signed
        candidate: dict[str, Any] = {"index": 0, "finishReason": REASONS[turn.ending]}
        if turn.ending != "refused":
            candidate["content"] = {"role": "model", "parts": parts}
        usage = {
            "promptTokenCount": 1200,
            "candidatesTokenCount": 50,
            "thoughtsTokenCount": 40,
            "totalTokenCount": 1290,
        }
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": self.model,
            "responseId": f"r{next(self.numbers)}",
        }

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        (candidate,) = answer["candidates"]
        for part in candidate.get("content", {}).get("parts", []):
            piece = {"index": 0, "content": {"role": "model", "parts": [part]}}
            yield write_event(answer | {"candidates": [piece]})
        last = {"content": {"role": "model", "parts": [{"text": ""}]}} if "content" in candidate else {}
        yield write_event(answer | {"candidates": [{"index": 0, "finishReason": candidate["finishReason"], **last}]})

    def write_refusal(self, refusal: Refusal) -> Any:
        return write_google_error(refusal)


class CompatibleGemini(ChatCompletions):
    name, kind, model, path = "Gemini, chat completions", "gemini", "gemini-3-pro-preview", "/v1beta/openai"
    insists_on = "the signature of the first call of each answer"
    refused_as = "filtered"

    def __init__(self) -> None:
        super().__init__()
        self.signatures: set[str] = set()

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        yield from super().refuse(body)
        for index, message in enumerate(body["messages"]):
            for call in (message.get("tool_calls") or ())[:1]:
                google = (call.get("extra_content") or {}).get("google") or {}
                if google.get("thought_signature") not in self.signatures | ({UNSIGNED} if self.is_second else set()):
                    yield refuse_unsigned(call["function"]["name"], index)

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return refuse_google_length(tokens, window)

    def write_call(self, index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = super().write_call(index, name, arguments)
        if index:
            return call
        signed = signature(f"only Google reads this {next(self.numbers)}")
        self.signatures.add(signed)
        return call | {"extra_content": {"google": {"thought_signature": signed}}}

    def write_refusal(self, refusal: Refusal) -> Any:
        return [write_google_error(refusal)]


def _signature(part: dict[str, Any]) -> str:
    """Return the signature of a part; the SDK writes base64 as for addresses."""
    signed: str = part.get("thoughtSignature") or part.get("thought_signature") or ""
    return signed.replace("-", "+").replace("_", "/")
