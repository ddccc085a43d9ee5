"""OpenAI's Responses, which keep nothing: what the model thought comes back encrypted."""

import json
from collections.abc import Iterator
from typing import Any

from tests.providers.imitation import Imitation, Refusal, Turn, refuse_names, refuse_schemas, signature
from tests.scripted_streams import write_named_event

PIECE = 7  # characters


class OpenAIResponses(Imitation):
    name, kind, model = "OpenAI, Responses", "openai-responses", "gpt-5.6"
    insists_on = "encrypted reasoning before the calls that it led to, an output for each call"
    thinks = True
    refused_as = "refused"

    def __init__(self) -> None:
        super().__init__()
        self.encrypted: dict[str, str] = {}  # reasoning items by id
        self.led_to: dict[str, str] = {}  # the reasoning item of each call

    def look_at(self, path: str, body: dict[str, Any]) -> None:
        self.judge.openai_responses(body)

    def refuse(self, body: dict[str, Any]) -> Iterator[Refusal]:
        items = body["input"] if isinstance(body["input"], list) else []
        yield from refuse_schemas(
            [tool["parameters"] for tool in body.get("tools") or ()], "Invalid schema for function"
        )
        yield from self._refuse_reasoning(items)
        yield from self._refuse_calls(items)
        yield from refuse_names(item["name"] for item in items if item.get("type") == "function_call")
        if body.get("store") is not False or "reasoning.encrypted_content" not in body.get("include", ()):
            yield Refusal(message="The organization keeps no data: set store to false and include encrypted reasoning.")
        if "temperature" in body:
            yield Refusal(
                message="Unsupported parameter: 'temperature' is not supported with this model.",
                param="temperature",
                is_expected=True,
            )

    def _refuse_reasoning(self, items: list[dict[str, Any]]) -> Iterator[Refusal]:
        sent = {item["id"] for item in items if item.get("type") == "reasoning"}
        for index, item in enumerate(items):
            follower = items[index + 1].get("type", "message") if index + 1 < len(items) else ""
            if item.get("type") == "reasoning":
                if not item.get("encrypted_content"):
                    yield Refusal(
                        status=404,
                        message=f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set "
                        "to false. Try again with `store` set to true, or remove this item from your input.",
                        param="input",
                    )
                elif self.encrypted.get(item["id"]) != item["encrypted_content"]:
                    yield Refusal(
                        message=f"The encrypted content for item {item['id']} could not be verified.",
                        code="invalid_encrypted_content",
                    )
                if follower not in ("function_call", "message", "reasoning") or _is_of_user(items[index + 1]):
                    yield Refusal(
                        message=f"Item '{item['id']}' of type 'reasoning' was provided without its required following "
                        "item.",
                        param="input",
                    )
            needed = self.led_to.get(item.get("id") or "")
            if needed and needed not in sent:
                yield Refusal(
                    message=f"Item '{item['id']}' of type '{item['type']}' was provided without its required "
                    f"'reasoning' item: '{needed}'.",
                    param="input",
                )

    def _refuse_calls(self, items: list[dict[str, Any]]) -> Iterator[Refusal]:
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        if missing := [id for id in called if id not in answered]:
            yield Refusal(message=f"No tool output found for function call {missing[0]}.", param="input")
        if strange := [id for id in answered if id not in called]:
            yield Refusal(message=f"No tool call found for function call output with call_id {strange[0]}.")

    def refuse_length(self, tokens: int, window: int) -> Refusal:
        return Refusal(
            message="Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
            param="input",
            is_expected=True,
        )

    def write(self, turn: Turn) -> dict[str, Any]:
        number = next(self.numbers)
        thought = f"rs_{number:032x}"
        self.encrypted[thought] = signature(f"only OpenAI reads this {number}")
        output: list[dict[str, Any]] = [
            {"id": thought, "type": "reasoning", "summary": [], "encrypted_content": self.encrypted[thought]}
        ]
        if turn.text:
            refused = {"type": "refusal", "refusal": turn.text}
            said = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
            content = [refused if turn.ending == "refused" else said]
            message = {"id": f"msg_{number:032x}", "type": "message", "role": "assistant", "content": content}
            output.append(message | {"status": "incomplete" if turn.ending == "cut" else "completed"})
        for index, (name, arguments) in enumerate(turn.calls):
            id = f"fc_{number:030x}{index}"
            self.led_to[id] = thought
            call = {"id": id, "type": "function_call", "call_id": f"call_{number:022}{index}", "name": name}
            output.append(call | {"arguments": json.dumps(arguments), "status": "completed"})
        is_cut = turn.ending == "cut"
        return {
            "id": f"resp_{number:032x}",
            "object": "response",
            "created_at": 1764000000,
            "model": self.model,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "store": False,
            "usage": {
                "input_tokens": 1200,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 90,
                "output_tokens_details": {"reasoning_tokens": 40},
                "total_tokens": 1290,
            },
        }

    def write_events(self, answer: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        number = -1

        def event(kind: str, **members: Any) -> str:
            nonlocal number
            number += 1
            return write_named_event({"type": f"response.{kind}", "sequence_number": number, **members})

        begun = answer | {"status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
        yield event("created", response=begun)
        yield event("in_progress", response=begun)
        for index, item in enumerate(answer["output"]):
            place = {"output_index": index, "item_id": item["id"]}
            empty: dict[str, Any] = {"reasoning": {}, "message": {"content": []}, "function_call": {"arguments": ""}}
            started = item | empty[item["type"]] | ({} if item["type"] == "reasoning" else {"status": "in_progress"})
            yield event("output_item.added", output_index=index, item=started)
            for kind, members in _item_events(item):
                yield event(kind, **place, **members)
            yield event("output_item.done", output_index=index, item=item)
        yield event(answer["status"], response=answer)


def _item_events(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield "function_call_arguments.delta", {"delta": piece}
        yield "function_call_arguments.done", {"arguments": item["arguments"], "name": item["name"]}
    if item["type"] == "message":
        part = item["content"][0]
        is_refusal = part["type"] == "refusal"
        kind, member = ("refusal", "refusal") if is_refusal else ("output_text", "text")
        more: dict[str, Any] = {} if is_refusal else {"logprobs": []}
        yield "content_part.added", {"content_index": 0, "part": part | {member: ""}}
        for piece in _pieces(part[member]):
            yield f"{kind}.delta", {"content_index": 0, "delta": piece, **more}
        yield f"{kind}.done", {"content_index": 0, member: part[member], **more}
        yield "content_part.done", {"content_index": 0, "part": part}


def _is_of_user(item: dict[str, Any]) -> bool:
    return item.get("role") == "user"


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
