"""The HTTP client for a service that answers JSON, such as a reranker: limits time and size, classifies failures."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from memory.egress import find_url_fault
from reflection.llm.base import ProviderError, storable
from reflection.llm.transport import BoundedTransport, deadline

MAX_RESPONSE_BYTES = 1024 * 1024
MAX_RETRY_AFTER_SECONDS = 3600.0
CONNECT_SECONDS = 5.0
MAX_DETAIL_CHARACTERS = 300
TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A service's JSON answer with status 200: an object or a list."""

    body: Any
    latency_ms: float


class JsonClient:
    """Sends requests to a service. Its repr does not contain the key.

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
            timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        )

    def __repr__(self) -> str:
        return f"<JsonClient {self._label} {self._base_url}>"

    def close(self) -> None:
        self._http.close()

    def post(self, path: str, payload: dict[str, Any]) -> Reply:
        """Send a JSON body and return the answer, a JSON object or list.

        Raises:
            ProviderError: there is no such answer with status 200.
        """
        if fault := find_url_fault(self._base_url):
            raise ProviderError(f"{self._label} cannot be used. {fault}", transient=False, code="egress_refused")
        started = time.monotonic()
        content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"content-type": "application/json"}
        try:
            with (
                deadline(self._timeout_seconds),
                self._http.stream("POST", f"{self._base_url}{path}", content=content, headers=headers) as response,
            ):
                body = self._read(response)
        except httpx.TimeoutException as error:
            raise ProviderError(f"{self._label} did not answer in time.", transient=True, code="timeout") from error
        except httpx.TransportError as error:
            message = f"The connection to {self._label} failed: {error}."
            raise ProviderError(message, transient=True, code="connection") from error
        except httpx.InvalidURL as error:
            message = f"The URL of {self._label} is not valid."
            raise ProviderError(message, transient=False, code="egress_refused") from error
        if response.status_code != 200:
            raise self._refusal(response, body)
        return Reply(body=self._parse(body), latency_ms=(time.monotonic() - started) * 1000)

    def _read(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise ProviderError(
                f"{self._label} sent a compressed answer, although none was requested.",
                transient=False,
                code="bad_envelope",
            )
        body = b""
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_RESPONSE_BYTES:
                raise ProviderError(
                    f"{self._label} sent more than {MAX_RESPONSE_BYTES} bytes; the rest was not read.",
                    transient=False,
                    code="response_too_large",
                )
        return body

    def _parse(self, body: bytes) -> Any:
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict | list):
            message = f"{self._label} sent an answer in an unknown format. Check its URL."
            raise ProviderError(message, transient=True, code="bad_envelope")
        return parsed

    def _refusal(self, response: httpx.Response, body: bytes) -> ProviderError:
        status = response.status_code
        words = storable(body[: 4 * MAX_DETAIL_CHARACTERS].decode("utf-8", "replace"))
        if self._api_key:
            words = words.replace(self._api_key, "[key]")
        detail = " ".join(words.split())[:MAX_DETAIL_CHARACTERS]
        transient = status in TRANSIENT_STATUSES or status >= 500
        return ProviderError(
            f"{self._label} answered {status}{f' ({detail})' if detail else ''}.",
            transient=transient,
            retry_after_seconds=retry_after_seconds(response.headers) if transient else None,
            code="rate_limited" if status == 429 else "server_error" if status >= 500 else "bad_request",
            status=status,
            detail=detail,
        )


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
