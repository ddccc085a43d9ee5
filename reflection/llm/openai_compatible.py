"""OpenAI's chat completions API, as served by OpenAI, Gemini, Groq, Ollama, vLLM, llama.cpp and others.

Servers support different parameters. One that a server refuses with 400 or 422 is omitted for the rest of the process;
refused requests are free.
"""

import re
from typing import Any

from reflection.llm.base import Completion, CompletionRequest, OnText, ProviderConfig, ProviderError, storable
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.http import STREAM_FAILED, ProviderClient, Reply
from reflection.llm.openai_format import ChunkAssembler, read_answer, write_chat
from reflection.llm.transport import BoundedTransport

SCHEMA_REFUSED = re.compile(r"response[_ ]format|json[_ ]schema|structured|grammar|guided", re.I)
# Groq: the model missed the schema; the next request may succeed
SCHEMA_MISSED = re.compile(r"json_validate_failed", re.I)
EMBEDDER = re.compile(r"embed|rerank|\bbge-", re.I)  # Ollama lists these among its models
MAX_NAMES = 10
REFUSALS = (400, 422)


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
        self._ask_for_usage = True
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
        schema = request.json_schema if self._send_schema else None
        while True:
            try:
                reply = self._post(request, _write_completion(request, schema))
            except ProviderError as error:
                if schema is None or error.status not in REFUSALS:
                    raise
                if not SCHEMA_MISSED.search(error.detail):
                    if not SCHEMA_REFUSED.search(error.detail):
                        raise
                    self._send_schema = False
                schema = None
            else:
                return self._answer(request, reply)

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        """Continue a conversation; raise `ProviderError` if there is no whole answer."""
        reply = self._post(request, write_chat(request), on_text)
        answer = self._answer(request, reply)
        if on_text is not None and not reply.streamed:
            on_text(answer.text)
        return answer

    def _post(
        self, request: CompletionRequest | ChatRequest, payload: dict[str, Any], on_text: OnText | None = None
    ) -> Reply:
        """Send a request, again without a parameter that the server refuses; a refused request is free."""
        self.model = self.model or self._find_only_model()
        while True:
            body = {"model": self.model, self._output_limit_field: request.max_output_tokens, **payload}
            if self._send_temperature and request.temperature is not None:
                body["temperature"] = request.temperature
            try:
                if on_text is None:
                    return self._client.post("/chat/completions", body)
                body["stream"] = True
                if self._ask_for_usage:
                    body["stream_options"] = {"include_usage": True}
                return self._client.stream("/chat/completions", body, ChunkAssembler(on_text))
            except ProviderError as error:
                if error.status not in REFUSALS or error.code == STREAM_FAILED:
                    raise
                if "stream_options" in error.detail and "stream_options" in body:
                    self._ask_for_usage = False
                elif "temperature" in error.detail and "temperature" in body:
                    self._send_temperature = False
                elif self._output_limit_field == "max_tokens" and "max_completion_tokens" in error.detail:
                    self._output_limit_field = "max_completion_tokens"
                else:
                    raise

    def _answer(self, request: CompletionRequest | ChatRequest, reply: Reply) -> ChatAnswer:
        if not reply.body.get("choices") and reply.body.get("error"):
            self._client.fail(reply.body["error"])
        answer = read_answer(request, reply.body, model=self.model, latency_ms=reply.latency_ms)
        if answer is None:
            raise self._client.bad_envelope()
        return answer

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


def _write_completion(request: CompletionRequest, schema: dict[str, Any] | None) -> dict[str, Any]:
    messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]
    if schema is None:
        return {"messages": messages}
    named = {"name": "answer", "strict": True, "schema": schema}
    return {"messages": messages, "response_format": {"type": "json_schema", "json_schema": named}}
