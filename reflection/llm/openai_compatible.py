"""OpenAI's chat completions API, as served by OpenAI, Gemini, Groq, Ollama, vLLM, llama.cpp and others.

Servers support different parameters. One that a server refuses with 400 or 422 is omitted for the rest of the process;
refused requests are free.
"""

import re
from typing import Any

from reflection.llm.base import Completion, CompletionRequest, ProviderConfig, ProviderError, estimate_tokens, storable
from reflection.llm.http import ProviderClient
from reflection.llm.transport import BoundedTransport

SCHEMA_REFUSED = re.compile(r"response[_ ]format|json[_ ]schema|structured|grammar|guided", re.I)
# Groq: the model missed the schema; the next request may succeed
SCHEMA_MISSED = re.compile(r"json_validate_failed", re.I)
EMBEDDER = re.compile(r"embed|rerank|\bbge-", re.I)  # Ollama lists these among its models
MAX_NAMES = 10
FINISH_REASONS = {"content_filter": "refusal", "tool_calls": "stop", "function_call": "stop"}


class OpenAICompatibleProvider:
    """A model behind `POST {base_url}/chat/completions`.

    Where the settings name no model, the first request asks the server which one it has.

    `output_limit_field` is "max_completion_tokens" for OpenAI, whose newer models refuse "max_tokens", and "max_tokens"
    for servers that know no other name.
    """

    def __init__(
        self, config: ProviderConfig, *, transport: BoundedTransport, output_limit_field: str = "max_tokens"
    ) -> None:
        self.name = config.name
        self.model = config.model
        self._output_limit_field = output_limit_field
        self._send_schema = True
        self._send_temperature = True
        self._client = ProviderClient(
            label=config.name,
            base_url=config.base_url,
            headers={"authorization": f"Bearer {config.api_key}"} if config.api_key else {},
            api_key=config.api_key,
            timeout_seconds=config.timeout_seconds,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"<OpenAICompatibleProvider {self.name} {self.model}>"

    def close(self) -> None:
        self._client.close()

    def complete(self, request: CompletionRequest) -> Completion:
        """Send one request; raise `ProviderError` if there is no answer."""
        self.model = self.model or self._find_only_model()
        with_schema = self._send_schema and request.json_schema is not None
        while True:
            try:
                reply = self._client.post("/chat/completions", self._payload(request, with_schema))
            except ProviderError as error:
                if error.status not in (400, 422):
                    raise
                if with_schema and SCHEMA_MISSED.search(error.detail):
                    with_schema = False
                elif with_schema and SCHEMA_REFUSED.search(error.detail):
                    with_schema = self._send_schema = False
                elif self._send_temperature and "temperature" in error.detail:
                    self._send_temperature = False
                elif self._output_limit_field == "max_tokens" and "max_completion_tokens" in error.detail:
                    self._output_limit_field = "max_completion_tokens"
                else:
                    raise
            else:
                return self._completion(request, reply.body, reply.latency_ms)

    def _find_only_model(self) -> str:
        """Return the name of the server's model, if it has just one that writes text.

        Raises:
            ProviderError: it has none or several, or does not answer.
        """
        listed = self._client.get("/models").body.get("data")
        names = [each["id"] for each in listed or () if isinstance(each, dict) and isinstance(each.get("id"), str)]
        writers = [name for name in names if not EMBEDDER.search(name)]
        if len(writers) == 1:
            return storable(writers[0])
        said = f"has several models: {', '.join(writers[:MAX_NAMES])}" if writers else "has no model"
        todo = "Set ERL_LLM_MODEL to one of them." if writers else "Load one, or set ERL_LLM_MODEL."
        message = storable(f"{self.name} {said}. {todo}")
        raise ProviderError(message, transient=not writers, code="model_not_chosen")

    def _payload(self, request: CompletionRequest, with_schema: bool) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.user},
            ],
            self._output_limit_field: request.max_output_tokens,
        }
        if self._send_temperature:
            payload["temperature"] = request.temperature
        if with_schema:
            payload["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": request.json_schema},
            }
        return payload

    def _completion(self, request: CompletionRequest, body: dict[str, Any], latency_ms: float) -> Completion:
        choices = body.get("choices")
        if not choices and body.get("error"):
            self._client.fail(body["error"])
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise self._client.bad_envelope()
        content, refusal = message.get("content"), message.get("refusal")
        if not isinstance(content, str | None):
            raise self._client.bad_envelope()
        text = storable(content or (refusal if isinstance(refusal, str) else ""))
        reason = str(choice.get("finish_reason") or "stop")
        raw_usage = body.get("usage")
        usage = raw_usage if isinstance(raw_usage, dict) else {}
        input_tokens, output_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
        return Completion(
            text=text,
            finish_reason="refusal" if refusal and not content else FINISH_REASONS.get(reason, reason),
            input_tokens=input_tokens
            if isinstance(input_tokens, int)
            else estimate_tokens(request.system + request.user),
            output_tokens=output_tokens if isinstance(output_tokens, int) else estimate_tokens(text),
            model=str(body.get("model") or self.model),
            latency_ms=latency_ms,
        )
