"""Anthropic's Messages API, version 2026-10-21 (https://platform.claude.com/docs/en/api/versioning).

This version has no `temperature`, so it is not sent.
"""

import re
from typing import Any

from reflection.llm.anthropic_format import EventAssembler, read_answer, write_chat
from reflection.llm.base import Completion, CompletionRequest, OnText, ProviderConfig, ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.http import ProviderClient, Reply
from reflection.llm.transport import BoundedTransport

API_VERSION = "2026-10-21"
SCHEMA_REFUSED = re.compile(r"output_config|output_format|json[_ ]?schema|structured", re.I)


class AnthropicProvider:
    """A Claude model. If the API refuses the schema, later requests rely on the prompt alone."""

    def __init__(self, config: ProviderConfig, *, transport: BoundedTransport) -> None:
        self.name = config.name
        self.model = config.model
        self._send_schema = True
        self._client = ProviderClient(
            label=config.name,
            base_url=config.base_url.rstrip("/").removesuffix("/v1"),
            headers={"x-api-key": config.api_key, "anthropic-version": API_VERSION},
            api_key=config.api_key,
            timeout_seconds=config.timeout_seconds,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"<AnthropicProvider {self.model}>"

    def close(self) -> None:
        self._client.close()

    def complete(self, request: CompletionRequest) -> Completion:
        """Send one request; raise `ProviderError` if there is no answer."""
        payload: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_output_tokens,
            "system": request.system,
            "messages": [{"role": "user", "content": request.user}],
        }
        with_schema = self._send_schema and request.json_schema is not None
        if with_schema:
            payload["output_config"] = {"format": {"type": "json_schema", "schema": request.json_schema}}
        try:
            reply = self._client.post("/v1/messages", payload)
        except ProviderError as error:
            # A refused request is free
            if not (with_schema and error.status == 400 and SCHEMA_REFUSED.search(error.detail)):
                raise
            self._send_schema = False
            return self.complete(request)
        return self._answer(request, reply)

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        """Continue a conversation; raise `ProviderError` if there is no whole answer."""
        payload = {"model": self.model, "max_tokens": request.max_output_tokens, **write_chat(request)}
        if on_text is None:
            return self._answer(request, self._client.post("/v1/messages", payload))
        reply = self._client.stream("/v1/messages", payload | {"stream": True}, EventAssembler(on_text))
        answer = self._answer(request, reply)
        if not reply.streamed:
            on_text(answer.text)
        return answer

    def _answer(self, request: CompletionRequest | ChatRequest, reply: Reply) -> ChatAnswer:
        if reply.body.get("type") == "error":
            self._client.fail(reply.body.get("error"))
        answer = read_answer(request, reply.body, model=self.model, latency_ms=reply.latency_ms)
        if answer is None:
            raise self._client.bad_envelope()
        return answer
