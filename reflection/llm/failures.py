"""What a failed question to a model means: whether a later try may help, and what an operator can do."""

import json
import re
from typing import Any

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelTimeoutError,
    UserError,
)

from memory.connections import MAX_RETRY_AFTER_SECONDS, retry_after_seconds
from reflection.llm.base import STREAM_FAILED, ProviderConfig, ProviderError, storable

MAX_DETAIL_CHARACTERS = 300
MIN_KEY_CHARACTERS = 8
MAX_WORDS = 4_000
TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 499})  # Google cancels with 499
CODES = {
    400: "bad_request",
    401: "authentication",
    402: "quota",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "request_too_large",
    422: "bad_request",
    429: "rate_limited",
    499: "server_error",
    503: "overloaded",
    529: "overloaded",
}
HINTS = {
    "authentication": "Check ERL_LLM_API_KEY, or the key of the provider in ERL_LLM_PROVIDERS.",
    "quota": "Check the billing of your account with the provider.",
    "forbidden": "Check that the key may use this model.",
    "not_found": "Check the name of the model and the address of the provider.",
    "request_too_large": "Send less at once.",
}
# Words in a 429 answer that waiting does not fix
QUOTA = re.compile(r"insufficient_quota|billing|quota_exceeded|exceeded your current quota|credit balance", re.I)
# Gemini calls its limits a minute a quota too, but says when to come back
RETRY_DELAY = re.compile(r'"retryDelay": ?"([0-9]{1,6}(?:\.[0-9]{1,6})?)s"')
# Groq's model wrote a call or an answer that cannot be read; the next one may be better
MISWRITTEN = re.compile(r"tool_use_failed|json_validate_failed")
BAD_KEY = re.compile(r"api[ _-]?key not valid|invalid api[ _-]?key", re.I)
KEYS = re.compile(r"\b(?:sk|gsk|key)[-_][\w*\-]{4,200}")

# Refusals of prompts that are too long; a number is the window in tokens. Wordings of OpenAI, OpenRouter and vLLM;
# Anthropic; Google; llama.cpp; vLLM again; Mistral; Ollama; Groq; Bedrock.
_WINDOW = (
    re.compile(r"maximum context length (?:is|of) ([0-9]{3,9})", re.I),
    re.compile(r"too long: [0-9]{1,9} tokens > ([0-9]{3,9})", re.I),
    re.compile(r"exceeds the maximum number of tokens allowed \(([0-9]{3,9})", re.I),
    re.compile(r"available context size \(([0-9]{3,9})", re.I),
    re.compile(r"\"n_ctx\": ?([0-9]{3,9})", re.I),
    re.compile(r"maximum model length of ([0-9]{3,9})", re.I),
    re.compile(r"maximum (?:allowed )?(?:context|input) length \(?([0-9]{3,9})", re.I),
    re.compile(r"with ([0-9]{3,9}) maximum context length", re.I),
    re.compile(r"context (?:window|length|size) of ([0-9]{3,9})", re.I),
)
_WORDLESS = re.compile(
    r"context_length_exceeded|exceed_context_size|prompt is too long|input is too long|exceeds? the (?:model's )?"
    r"(?:maximum )?context (?:length|window|size)|reduce the length of the (?:messages|prompt|input)",
    re.I,
)


def classify(error: BaseException, config: ProviderConfig) -> ProviderError:
    """Return a failure of the library as one of ours, with the provider's words but without the key."""
    own = _find_own(error)
    if own is not None:
        return own
    name = config.name
    if isinstance(error, ModelHTTPError):
        return _classify_refusal(error, config)
    if isinstance(error, TimeoutError | ModelTimeoutError):
        return ProviderError(f"{name} did not answer in time.", transient=True, code="timeout")
    if isinstance(error, ModelConnectionError):
        cause = _tidy(str(error.__cause__ or error), config)
        return ProviderError(f"The connection to {name} failed: {cause}", transient=True, code="connection")
    if isinstance(error, ModelAPIError) and (error.in_stream or "finish_reason" in str(error)):
        detail = _tidy(str(error), config)
        return ProviderError(
            f"{name} broke off in the middle of its answer: {detail}", transient=True, code=STREAM_FAILED
        )
    # The library does not send what it knows to be refused.
    if isinstance(error, UserError):
        return ProviderError(f"{name} could not be asked: {_tidy(str(error), config)}", transient=False)
    message = f"{name} sent an answer in an unknown format. Check its address."
    return ProviderError(message, transient=True, code="bad_envelope", detail=_tidy(str(error), config))


def _find_own(error: BaseException | None) -> ProviderError | None:
    """Return our own failure that an SDK wrapped in one of its own."""
    while error is not None:
        if isinstance(error, ProviderError):
            return error
        # SDKs raise errors of their own from ours, without saying more.
        error = error.__cause__ or error.__context__
    return None


def _classify_refusal(error: ModelHTTPError, config: ProviderConfig) -> ProviderError:
    status = error.status_code
    words = json.dumps(error.body, default=str) if not isinstance(error.body, str) else error.body
    kind, detail = _explain(error.body, config)
    code = CODES.get(status, "server_error" if status >= 500 else "bad_request")
    transient = status in TRANSIENT_STATUSES or status >= 500 or bool(MISWRITTEN.search(kind))
    # Cut, as the words come from outside and are only looked through.
    delay = RETRY_DELAY.search(words[:20_000]) if status == 429 else None
    # Servers differ in the status with which they refuse a prompt that is too long.
    overflow = read_overflow(words) if status in (400, 413, 422, 500) else None
    if overflow is not None:
        code, transient = "context_overflow", False
    elif status == 400 and BAD_KEY.search(detail):
        # Gemini answers a wrong key with 400, where others answer 401.
        code = "authentication"
    elif (
        status == 429 and not delay and (isinstance(error, ModelQuotaExceededError) or QUOTA.search(f"{kind} {detail}"))
    ):
        code, transient = "quota", False
    wait_seconds = retry_after_seconds(error.headers or {})
    if wait_seconds is None and delay:
        wait_seconds = min(float(delay[1]), MAX_RETRY_AFTER_SECONDS)
    explanation = ": ".join(part for part in (kind, detail) if part)
    message = f"{config.name} answered {status}{f' ({explanation})' if explanation else ''}."
    return ProviderError(
        f"{message} {HINTS.get(code, '')}".strip(),
        transient=transient,
        retry_after_seconds=wait_seconds if transient else None,
        code=STREAM_FAILED if error.in_stream and transient else code,
        status=status,
        detail=f"{kind} {detail}".strip(),
        window_tokens=overflow or None,
    )


def _explain(body: Any, config: ProviderConfig) -> tuple[str, str]:
    """Return the provider's kind of error and message, shortened to one line and without the key."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            # A proxy's words, but no page of it
            return "", "" if body.lstrip().startswith("<") else _tidy(body, config)
    # Gemini wraps its error in a list.
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error", body) if isinstance(body, dict) else ""
    if not isinstance(error, dict):
        error = {"message": error}
    kinds = (error.get(name) for name in ("code", "type", "status", "param"))
    kind = " ".join(dict.fromkeys(text for text in kinds if isinstance(text, str)))
    message = error.get("message") or error.get("detail") or ""
    # OpenRouter puts the words of the provider behind it here.
    if isinstance(metadata := error.get("metadata"), dict):
        message = metadata.get("raw") or message
    return _tidy(kind, config), _tidy(message if isinstance(message, str) else json.dumps(message), config)


def _tidy(text: str, config: ProviderConfig) -> str:
    # A shorter one is a placeholder, and would hide single letters.
    if len(config.api_key) >= MIN_KEY_CHARACTERS:
        text = text.replace(config.api_key, "[key]")
    # Providers quote part of a wrong key, with asterisks in the middle
    text = KEYS.sub("[key]", storable(text[: 10 * MAX_DETAIL_CHARACTERS]))
    return " ".join(text.split())[:MAX_DETAIL_CHARACTERS]


def read_overflow(words: str) -> int | None:
    """Return the window of a model whose prompt was too long, 0 where it is not said; None for another refusal."""
    words = words[:MAX_WORDS]
    for pattern in _WINDOW:
        if hit := pattern.search(words):
            return int(hit[1])
    return 0 if _WORDLESS.search(words) else None
