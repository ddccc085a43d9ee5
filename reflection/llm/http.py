"""The HTTP client for providers: limits time and size, and classifies failures for the queue (reliability B9, D8)."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn, Protocol

import httpx

from memory.egress import find_url_fault
from reflection.llm.base import ProviderError, storable
from reflection.llm.sse import StreamTooLarge, read_events
from reflection.llm.transport import BoundedTransport, deadline

MAX_RESPONSE_BYTES = 1024 * 1024
MAX_RETRY_AFTER_SECONDS = 3600.0
CONNECT_SECONDS = 5.0
MAX_DETAIL_CHARACTERS = 300

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
# Words in a 429 answer that waiting does not fix
QUOTA = re.compile(r"insufficient_quota|billing|quota_exceeded|exceeded your current quota|credit balance", re.I)

# Gemini calls its limits a minute a quota too, but says when to come back
RETRY_DELAY = re.compile(rb'"retryDelay":\s*"([0-9]{1,6}(?:\.[0-9]+)?)s"')
# Groq's model wrote a call of a tool that cannot be read; the next one may be better
MISWRITTEN_CALL = re.compile(r"tool_use_failed")
BAD_KEY = re.compile(r"api[ _-]?key not valid|invalid api[ _-]?key", re.I)

HINTS = {
    400: "Check ERL_LLM_MODEL and the limits ERL_LLM_MAX_INPUT_TOKENS and ERL_LLM_MAX_OUTPUT_TOKENS.",
    401: "Check ERL_LLM_API_KEY.",
    402: "Check the billing of your account with the provider.",
    403: "Check that the key may use this model.",
    404: "Check ERL_LLM_MODEL and ERL_LLM_BASE_URL.",
    413: "Lower ERL_LLM_MAX_INPUT_TOKENS.",
    422: "Check ERL_LLM_MODEL and ERL_LLM_BASE_URL.",
}
STREAM_FAILED = "stream_failed"
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
    503: "overloaded",
    529: "overloaded",
}
# Errors in the middle of a stream, when the status is 200 already
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}
MIN_KEY_CHARACTERS = 8
SILENT_SHARE = 1 / 3  # of the time limit, for which a stream that has begun may say nothing
DRAIN_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A provider's JSON answer with status 200: an object, or a list if that was allowed."""

    body: Any
    latency_ms: float
    streamed: bool = False


class Assembler(Protocol):
    """Puts the events of a stream together to an answer."""

    def take(self, event: dict[str, Any]) -> bool:
        """Read one event; return whether it is the last."""
        ...

    @property
    def body(self) -> dict[str, Any] | None:
        """The whole answer, or None while something is missing."""
        ...


class ProviderClient:
    """Sends requests to a provider. Its repr does not contain the key.

    `timeout_seconds` limits the whole call.
    """

    def __init__(
        self,
        *,
        label: str,
        base_url: str,
        headers: Mapping[str, str],
        api_key: str,
        timeout_seconds: float,
        transport: BoundedTransport,
    ) -> None:
        self._label = label
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._base_url = base_url.rstrip("/")
        self._http = httpx.Client(
            transport=transport,
            follow_redirects=False,
            trust_env=False,
            # No compression, which would bypass the limit on the size of answers
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "erl", **headers},
            # The first byte may come when the model is done, so reading may use the whole time
            timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        )

    def __repr__(self) -> str:
        return f"<ProviderClient {self._label} {self._base_url}>"

    def close(self) -> None:
        self._http.close()

    def post(self, path: str, payload: dict[str, Any], *, or_list: bool = False) -> Reply:
        """Send a JSON body and return the answer, a JSON object (or list, with `or_list`).

        Raises:
            ProviderError: there is no such answer with status 200.
        """
        return self._send("POST", path, payload, or_list=or_list)

    def get(self, path: str) -> Reply:
        """Return what the provider has at a path, a JSON object.

        Raises:
            ProviderError: there is no such answer with status 200.
        """
        return self._send("GET", path, None, or_list=False)

    def stream(self, path: str, payload: dict[str, Any], assembler: Assembler) -> Reply:
        """Send a JSON body and return the answer that the assembler makes of the events; or a plain answer as it is.

        Raises:
            ProviderError: there is no such answer with status 200, or it broke off.
        """
        started = time.monotonic()
        with self._open("POST", path, payload) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            streamed = response.status_code == 200 and kind == "text/event-stream"
            if streamed:
                body = self._assemble(response, assembler)
            else:
                body = self._parse(self._read_ok(response), or_list=False)
        return Reply(body=body, latency_ms=(time.monotonic() - started) * 1000, streamed=streamed)

    def _send(self, method: str, path: str, payload: dict[str, Any] | None, *, or_list: bool) -> Reply:
        started = time.monotonic()
        with self._open(method, path, payload) as response:
            body = self._read_ok(response)
        return Reply(body=self._parse(body, or_list=or_list), latency_ms=(time.monotonic() - started) * 1000)

    @contextmanager
    def _open(self, method: str, path: str, payload: dict[str, Any] | None) -> Iterator[httpx.Response]:
        if fault := find_url_fault(self._base_url):
            raise ProviderError(f"{self._label} cannot be used. {fault}", transient=False, code="egress_refused")
        content = None if payload is None else json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        try:
            with (
                deadline(self._timeout_seconds),
                self._http.stream(
                    method,
                    f"{self._base_url}{path}",
                    content=content,
                    headers={"content-type": "application/json"} if content else {},
                ) as response,
            ):
                yield response
        except httpx.TimeoutException as error:
            raise ProviderError(f"{self._label} did not answer in time.", transient=True, code="timeout") from error
        except httpx.TransportError as error:
            raise ProviderError(
                f"The connection to {self._label} failed: {error}.", transient=True, code="connection"
            ) from error
        except httpx.InvalidURL as error:
            raise ProviderError(
                f"The URL of {self._label} is not valid.", transient=False, code="egress_refused"
            ) from error

    def fail(self, error: Any, *, in_stream: bool = False) -> NoReturn:
        """Raise `ProviderError` for an error object in an answer with status 200, as some gateways send."""
        named = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
        numbers = (STATUSES.get(name) if isinstance(name, str) else name for name in named)
        status = next((number for number in numbers if isinstance(number, int) and 400 <= number <= 599), 502)
        try:
            self._refuse(httpx.Response(status), json.dumps({"error": error}).encode())
        except ProviderError as failure:
            if in_stream:
                failure.code = STREAM_FAILED
            raise

    def bad_envelope(self) -> ProviderError:
        """Return the error for an answer that is not in the provider's format."""
        return ProviderError(
            f"{self._label} sent an answer in an unknown format. Check ERL_LLM_BASE_URL.",
            transient=True,
            code="bad_envelope",
        )

    def _assemble(self, response: httpx.Response, assembler: Assembler) -> dict[str, Any]:
        """Read events to the end of the answer."""
        self._refuse_compression(response)
        chunks = self._read_chunks(response)
        try:
            for data in read_events(chunks):
                if data == "[DONE]":
                    break
                event = self._parse(data.encode(), or_list=False)
                if event.get("error"):
                    self.fail(event["error"], in_stream=True)
                if assembler.take(event):
                    break
        except StreamTooLarge as error:
            raise ProviderError(
                f"{self._label} sent {error}; the rest was not read.", transient=False, code="response_too_large"
            ) from error
        if assembler.body is None:
            raise ProviderError(
                f"{self._label} broke off in the middle of its answer.", transient=True, code="connection"
            )
        with deadline(DRAIN_SECONDS), suppress(httpx.TransportError, ProviderError):
            next(chunks, None)  # at its end, the connection can be used again
        return assembler.body

    def _read_chunks(self, response: httpx.Response) -> Iterator[bytes]:
        """Yield what comes. After the first bytes, the model no longer thinks: silence then means that it hangs."""
        chunks = response.iter_raw()
        chunk = next(chunks, None)
        while chunk is not None:
            yield chunk
            try:
                with deadline(self._timeout_seconds * SILENT_SHARE):
                    chunk = next(chunks, None)
            except httpx.TimeoutException as error:
                message = f"{self._label} stopped in the middle of its answer."
                raise ProviderError(message, transient=True, code="timeout") from error

    def _read_ok(self, response: httpx.Response) -> bytes:
        """Return the body of an answer with status 200, and raise the failure that another says."""
        body = self._read(response)
        if response.status_code != 200:
            self._refuse(response, body)
        return body

    def _refuse_compression(self, response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise ProviderError(
                f"{self._label} sent a compressed answer, although none was requested.",
                transient=False,
                code="bad_envelope",
            )

    def _read(self, response: httpx.Response) -> bytes:
        self._refuse_compression(response)
        chunks, size = [], 0
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise ProviderError(
                    f"{self._label} sent more than {MAX_RESPONSE_BYTES} bytes; the rest was not read.",
                    transient=False,
                    code="response_too_large",
                )
            chunks.append(chunk)
        return b"".join(chunks)

    def _parse(self, body: bytes, *, or_list: bool) -> Any:
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self.bad_envelope() from error
        if not isinstance(parsed, dict) and not (or_list and isinstance(parsed, list)):
            raise self.bad_envelope()
        return parsed

    def _refuse(self, response: httpx.Response, body: bytes) -> NoReturn:
        status = response.status_code
        kind, detail = self._explain(body)
        if 300 <= status < 400:
            raise ProviderError(
                f"{self._label} sent a redirect, and redirects are never followed. "
                "Set ERL_LLM_BASE_URL to the final URL.",
                transient=False,
                code="redirect",
                status=status,
            )
        transient = status in TRANSIENT_STATUSES or status >= 500 or bool(MISWRITTEN_CALL.search(kind))
        code = CODES.get(status, "server_error" if status >= 500 else "bad_request")
        hint = HINTS.get(status, "")
        if status == 400 and BAD_KEY.search(detail):  # Gemini, where others answer 401
            code, hint = CODES[401], HINTS[401]
        named_delay = RETRY_DELAY.search(body) if status == 429 else None
        if status == 429 and not named_delay and QUOTA.search(f"{kind} {detail}"):
            transient, code, hint = False, "quota", HINTS[402]
        wait_seconds = retry_after_seconds(response.headers)
        if wait_seconds is None and named_delay:
            wait_seconds = min(float(named_delay[1]), MAX_RETRY_AFTER_SECONDS)
        explanation = ": ".join(part for part in (kind, detail) if part)
        raise ProviderError(
            f"{self._label} answered {status}{f' ({explanation})' if explanation else ''}. {hint}".strip(),
            transient=transient,
            retry_after_seconds=wait_seconds if transient else None,
            code=code,
            status=status,
            detail=f"{kind} {detail}".strip(),
        )

    def _explain(self, body: bytes) -> tuple[str, str]:
        """Return the provider's kind of error and message, shortened to one line and without the key."""
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            return "", ""
        if isinstance(parsed, list) and parsed:  # Gemini wraps its error in a list
            parsed = parsed[0]
        error = parsed.get("error", parsed) if isinstance(parsed, dict) else ""
        if not isinstance(error, dict):
            error = {"message": error}
        kinds = (error.get(name) for name in ("code", "type", "status", "param"))
        kind = " ".join(dict.fromkeys(text for text in kinds if isinstance(text, str)))
        message = error.get("message") or error.get("detail") or ""
        return self._tidy(kind), self._tidy(message if isinstance(message, str) else json.dumps(message))

    def _tidy(self, text: str) -> str:
        if len(self._api_key) >= MIN_KEY_CHARACTERS:  # a shorter one is a placeholder, and would hide single letters
            text = text.replace(self._api_key, "[key]")
        # Providers quote part of a wrong key, with asterisks in the middle
        text = re.sub(r"\b(?:sk|gsk|key)[-_][\w*\-]{4,}", "[key]", storable(text))
        return " ".join(text.split())[:MAX_DETAIL_CHARACTERS]


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the requested wait of up to one hour, given in seconds or as an HTTP date (RFC 9110 10.2.3).

    A date is compared with the answer's own `Date` if there is one, since the local clock may be wrong.
    """
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        at, sent_at = _read_date(text), _read_date(headers.get("date", ""))
        if at is None:
            return None
        seconds = (at - (sent_at or datetime.now(UTC))).total_seconds()
    if seconds != seconds:  # float("nan") is valid
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _read_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)
