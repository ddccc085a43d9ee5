"""Anthropic's Messages API, version 2026-10-21 (https://platform.claude.com/docs/en/api/versioning).

This version has no `temperature`, so it is not sent.
"""

import re
from typing import Any

from reflection.llm.base import Completion, CompletionRequest, ProviderConfig, ProviderError, estimate_tokens, storable
from reflection.llm.http import ProviderClient
from reflection.llm.transport import BoundedTransport

API_VERSION = "2026-10-21"
SCHEMA_REFUSED = re.compile(r"output_config|output_format|json[_ ]?schema|structured", re.I)
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


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
        body = reply.body
        if body.get("type") == "error":
            self._client.fail(body.get("error"))
        blocks = body.get("content")
        if not isinstance(blocks, list):
            raise self._client.bad_envelope()
        texts = [
            block["text"]
            for block in blocks
            if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
        ]
        text = storable("".join(texts))
        raw_usage = body.get("usage")
        usage = raw_usage if isinstance(raw_usage, dict) else {}
        counts = [
            usage.get(name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        ]
        input_tokens = sum(count for count in counts if isinstance(count, int))
        output_tokens = usage.get("output_tokens")
        reason = body.get("stop_reason")
        return Completion(
            text=text,
            finish_reason=FINISH_REASONS.get(str(reason), str(reason or "stop")),
            input_tokens=input_tokens or estimate_tokens(request.system + request.user),
            output_tokens=output_tokens if isinstance(output_tokens, int) else estimate_tokens(text),
            model=str(body.get("model") or self.model),
            latency_ms=reply.latency_ms,
        )
