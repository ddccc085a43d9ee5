"""Streams of OpenAI's chat completions, as servers send them that follow it loosely."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from openai.types.chat import ChatCompletionChunk, chat_completion_chunk
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.models.openrouter import OpenRouterModel, OpenRouterStreamedResponse


@dataclass
class LooseStream(OpenAIStreamedResponse):
    """Tells apart calls that a server sends whole with one index for all, or with none.

    Another id, or a name where nothing else tells calls apart, begins the next call. A name that comes again in each
    piece of a call is no longer name.
    """

    _calls: list[dict[str, Any]] = field(default_factory=list, init=False)

    async def _validate_response(self) -> AsyncIterator[ChatCompletionChunk]:
        async for chunk in super()._validate_response():
            for choice in chunk.choices or ():
                if choice.finish_reason is not None and not isinstance(choice.finish_reason, str):
                    # Some servers send a number where a string belongs.
                    choice.finish_reason = "stop"
                if (
                    choice.delta is not None and (function := choice.delta.function_call) is not None
                ):  # older than tools
                    call = chat_completion_chunk.ChoiceDeltaToolCall.model_construct(index=0, function=function)
                    choice.delta.tool_calls = [call]
            yield chunk

    def _map_tool_call_delta(self, choice: chat_completion_chunk.Choice) -> Iterable[ModelResponseStreamEvent]:
        for piece in choice.delta.tool_calls or []:
            self._number(piece)
        events: Iterable[ModelResponseStreamEvent] = super()._map_tool_call_delta(choice)
        return events

    def _number(self, piece: Any) -> None:
        index, id, function = getattr(piece, "index", None), getattr(piece, "id", None), piece.function
        # Without an index, every call so far may be the one that goes on.
        same = [call for call in self._calls if index is None or call["index"] == index]
        call = same[-1] if same else None
        is_named = function is not None and bool(function.name)
        is_next = call is None or (id and call["id"] and id != call["id"]) or (index is None and not id and is_named)
        if is_next or call is None:
            call = {"index": index, "id": id, "number": len(self._calls)}
            self._calls.append(call)
        elif function is not None:
            # Some servers repeat the name in each piece, and the SDK would join them.
            function.name = None
        call["id"] = call["id"] or id
        piece.index = call["number"]
        if function is not None and function.arguments is not None and not isinstance(function.arguments, str):
            function.arguments = json.dumps(function.arguments, ensure_ascii=False)


class LooseChatModel(OpenAIChatModel):
    """A model behind OpenAI's chat completions, on any server."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return LooseStream


@dataclass
class LooseOpenRouterStream(LooseStream, OpenRouterStreamedResponse):
    """OpenRouter passes on what the servers behind it send."""


class LooseOpenRouterModel(OpenRouterModel):
    """A model behind OpenRouter, on any of its servers."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return LooseOpenRouterStream
