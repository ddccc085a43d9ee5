"""The interface of language model providers: one request, and one answer or error."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from reflection.errors import ReflectionError

if TYPE_CHECKING:
    from reflection.llm.chat import ChatAnswer, ChatRequest

OnText = Callable[[str], None]
STREAM_FAILED = "stream_failed"  # the code of a failure in the middle of an answer

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(?P<body>.*?)```\s*", re.S | re.I)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderConfig:
    """The settings of a provider. `kind` says which API it speaks, where its name does not."""

    name: str
    model: str
    base_url: str
    timeout_seconds: float
    api_key: str = field(repr=False)
    kind: str = ""


class Provider(Protocol):
    """A model behind an API. `name` is its name in the registry."""

    name: str
    model: str

    def chat(self, request: "ChatRequest", *, on_text: OnText | None = None) -> "ChatAnswer":
        """Continue a conversation, without retries.

        With `on_text`, the answer is streamed: each piece of its text is passed on as it comes, and the pieces together
        are the answer's text. If the call fails, the pieces are no answer: drop them.

        Raises:
            ProviderError: there is no whole answer.
        """
        ...

    def start(self, request: "ChatRequest", *, on_text: OnText | None = None) -> "Future[ChatAnswer]":
        """Begin to continue a conversation, as `chat` does, and wait for nothing; `on_text` must not wait either."""
        ...

    def close(self) -> None: ...


class BlockingProvider:
    """A provider that answers in the thread that asks, for what is no service."""

    def chat(self, request: "ChatRequest", *, on_text: OnText | None = None) -> "ChatAnswer":
        raise NotImplementedError

    def start(self, request: "ChatRequest", *, on_text: OnText | None = None) -> "Future[ChatAnswer]":
        """Answer at once."""
        asked: Future[ChatAnswer] = Future()
        try:
            asked.set_result(self.chat(request, on_text=on_text))
        except ProviderError as error:
            asked.set_exception(error)
        return asked


class ProviderError(ReflectionError):
    """The provider gave no answer; `transient` says whether a later retry may help (reliability B9).

    With the code "context_overflow" the prompt was too long; `window_tokens` is then the model's context window, where
    the provider said it.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool,
        retry_after_seconds: float | None = None,
        code: str = "provider_failed",
        status: int | None = None,
        detail: str = "",
        window_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after_seconds = retry_after_seconds
        self.code = code
        self.status = status
        self.detail = detail
        self.window_tokens = window_tokens


class ProviderNotConfigured(ReflectionError):
    """No language model is configured, or its settings are incomplete."""

    code = "provider_not_configured"


def estimate_tokens(text: str) -> int:
    """Return a cautious estimate of a text's tokens: one per three ASCII characters or per other character.

    Prose has about four characters per token, but prompts here contain much JSON, identifiers and hexadecimal digits,
    which have fewer. SmolLM2's small vocabulary needs 1,585 tokens for a prompt of 4,500 characters.
    """
    ascii_count = len(text.encode("ascii", "ignore"))
    return -(-ascii_count // 3) + len(text) - ascii_count


def storable(text: str) -> str:
    """Replace NUL and lone surrogates, which PostgreSQL refuses, by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def strip_fence(text: str) -> str:
    """Return an answer without the code fence around it, if there is one."""
    fenced = _FENCED.fullmatch(text)
    return fenced["body"].rstrip() if fenced else text.strip()


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these members."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
