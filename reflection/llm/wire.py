"""A language model behind a provider's API, through pydantic-ai.

Only a process that asks a model imports this module: it takes a second and 60 MB.
"""

import asyncio
import os
import re
import ssl
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model

from memory.connections import seconds_left
from reflection.llm.adaptations import Adaptations
from reflection.llm.base import OnText, ProviderConfig, ProviderError, storable
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.connections import open_client
from reflection.llm.failures import classify
from reflection.llm.kinds import build_model
from reflection.llm.messages import read_answer, write_messages, write_parameters, write_settings

CLOSE_SECONDS = 1.0
EMBEDDER = re.compile(r"embed|rerank|\bbge-", re.I)  # Ollama lists these among its models
MAX_NAMES = 10
_T = TypeVar("_T")


class ModelProvider:
    """One model of a provider. `for_model` gives another one, on the same connections."""

    def __init__(self, config: ProviderConfig, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self.name = config.name
        self.model = config.model
        self.config = config
        self.adaptations = Adaptations()
        self.connections = open_client(
            self.adaptations,
            timeout_seconds=config.timeout_seconds,
            has_key=bool(config.api_key),
            ssl_context=ssl_context,
        )
        # Built here, since the SDKs take a second to load: that is none of the time the model has to answer
        self._models: dict[str, Model] = {config.model: build_model(config, config.model, self.connections)}

    def for_model(self, config: ProviderConfig) -> Self:
        """Return another model of the same provider."""
        other = copy(self)
        other.config, other.model = config, config.model
        return other

    def close(self) -> None:
        with suppress(TimeoutError):
            _start(self.connections.aclose()).result(CLOSE_SECONDS)

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        """Continue a conversation, and wait for the answer; raise `ProviderError` if there is no whole answer."""
        if on_text is None:
            return self.start(request).result()
        # `on_text` may wait, so it runs in this thread and not on the event loop.
        pieces: SimpleQueue[str | None] = SimpleQueue()
        asked = self.start(request, on_text=pieces.put)
        # The end of the pieces, also after a failure, so that the loop below ends.
        asked.add_done_callback(lambda _: pieces.put(None))
        while (piece := pieces.get()) is not None:
            on_text(piece)
        return asked.result()

    def start(self, request: ChatRequest, *, on_text: OnText | None = None) -> "Future[ChatAnswer]":
        """Begin to continue a conversation. Cancelling what is returned closes the connection.

        `on_text` is called on the event loop, so it must not wait for anything. A `deadline` around this call ends it.
        """
        return _start(self._ask(request, on_text, seconds_left(self.config.timeout_seconds)))

    async def _ask(self, request: ChatRequest, on_text: OnText | None, seconds: float | None) -> ChatAnswer:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                self.model = self.model or await self._find_only_model()
                response = await self._request(request, on_text)
            latency_ms = (time.monotonic() - begun) * 1000
            return read_answer(request, response, model=self.model, latency_ms=latency_ms)
        except Exception as error:
            # An SDK's own faults are failures of the provider's answer.
            raise classify(error, self.config) from error

    async def _request(self, request: ChatRequest, on_text: OnText | None) -> ModelResponse:
        if self.model not in self._models:
            self._models[self.model] = build_model(self.config, self.model, self.connections)
        model = self._models[self.model]
        messages = write_messages(request, kind=self.config.kind or self.name, model=model)
        settings = write_settings(request)
        takes_schema = bool(model.profile.get("supports_json_schema_output"))
        parameters = write_parameters(request, takes_schema=takes_schema)
        if on_text is None:
            return await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=piece)) if piece:
                        # Pieces together have to equal the answer as it is stored.
                        on_text(storable(piece))
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)) if piece:
                        on_text(storable(piece))
            return stream.get()

    async def _find_only_model(self) -> str:
        """Return the name of the server's model, if it has just one that writes text.

        Raises:
            ProviderError: it has none or several, or does not answer.
        """
        headers = {"authorization": f"Bearer {self.config.api_key}"} if self.config.api_key else {}
        response = await self.connections.get(f"{self.config.base_url.rstrip('/')}/models", headers=headers)
        if response.status_code != 200:
            raise ProviderError(
                f"{self.name} answered {response.status_code} when it was asked for its models. Name one in "
                "ERL_LLM_MODEL.",
                transient=response.status_code >= 500,
                code="model_not_chosen",
                status=response.status_code,
            )
        body = response.json()
        listed = body.get("data") if isinstance(body, dict) else None
        names = [model["id"] for model in listed or () if isinstance(model, dict) and isinstance(model.get("id"), str)]
        # Models that only embed cannot answer.
        writers = [name for name in names if not EMBEDDER.search(name)]
        if len(writers) == 1:
            return storable(writers[0])
        reason = f"has several models: {', '.join(writers[:MAX_NAMES])}" if writers else "has no model"
        todo = "Set ERL_LLM_MODEL to one of them." if writers else "Load one, or set ERL_LLM_MODEL."
        raise ProviderError(storable(f"{self.name} {reason}. {todo}"), transient=not writers, code="model_not_chosen")


_lock = Lock()
_loop: tuple[int, asyncio.AbstractEventLoop] | None = None  # with its process: a fork has no threads


def _start(coroutine: Coroutine[Any, Any, _T]) -> "Future[_T]":
    """Begin a coroutine on this process's event loop; cancelling what is returned ends it there.

    The loop has a thread of its own. A question that is under way costs a task there, and neither a thread nor a
    process.
    """
    global _loop
    with _lock:
        # A fork inherits the loop without its thread, so the child starts its own.
        if _loop is None or _loop[0] != os.getpid():
            loop = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="models", daemon=True).start()
            _loop = (os.getpid(), loop)
        return asyncio.run_coroutine_threadsafe(coroutine, _loop[1])
