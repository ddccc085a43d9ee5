"""What a provider of a language model is: one question in, one answer out, and a named failure otherwise."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from reflection.errors import ReflectionError

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionRequest:
    """One question to a model. `json_schema` asks for structured output where the provider can enforce it."""

    system: str
    user: str
    max_output_tokens: int
    json_schema: dict[str, Any] | None = field(default=None, hash=False)
    temperature: float = 0.0

    @property
    def sha256(self) -> str:
        """The fingerprint of everything that decides the answer: half of the key of a recovery point."""
        canonical = json.dumps(
            [self.system, self.user, self.max_output_tokens, self.json_schema, self.temperature],
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """A model's answer as it came.

    `finish_reason` is "stop", "length" (cut off by the token limit), "refusal", or the provider's own word.
    `text` can be stored in PostgreSQL: characters that cannot are U+FFFD.
    """

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    model: str
    latency_ms: float


class Provider(Protocol):
    """A model behind an API. `name` is the registry's word for it."""

    name: str
    model: str

    def complete(self, request: CompletionRequest) -> Completion:
        """Ask once, without retries; raise `ProviderError` when there is no answer."""
        ...

    def close(self) -> None: ...


class ProviderError(ReflectionError):
    """The provider gave no answer; `transient` says whether asking again later can help (reliability B9)."""

    def __init__(
        self,
        message: str,
        *,
        transient: bool,
        retry_after_seconds: float | None = None,
        code: str = "provider_failed",
        status: int | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after_seconds = retry_after_seconds
        self.code = code
        self.status = status
        self.detail = detail


class ProviderNotConfigured(ReflectionError):
    """No language model is configured, or its settings are incomplete."""

    code = "provider_not_configured"


def estimate_tokens(text: str) -> int:
    """Return a cautious estimate of a text's tokens: three ASCII characters or one other character each.

    Prose has about four characters a token; JSON, identifiers and hexadecimal digits, of which prompts here are full,
    have fewer. SmolLM2's tokenizer, with its small vocabulary, made 1,585 tokens of a prompt of 4,500 characters.
    """
    ascii_count = len(text.encode("ascii", "ignore"))
    return -(-ascii_count // 3) + len(text) - ascii_count


def storable(text: str) -> str:
    """Return the text with NUL and lone surrogates, which PostgreSQL refuses, replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)
