"""Connections to providers of language models: bounded in time and size, with no redirect, proxy or compression.

The providers' SDKs are asynchronous, and all of them take an HTTP client of ours.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from memory.egress import find_url_fault
from reflection.llm.adaptations import Adaptations
from reflection.llm.base import ProviderError
from reflection.llm.transport import default_ssl_context

MAX_ANSWER_BYTES = 1024 * 1024
MAX_STREAM_BYTES = 16 * 1024 * 1024  # a token of a stream comes in some 300 bytes of JSON
CONNECT_SECONDS = 5.0
SILENT_SHARE = 1 / 3  # of the time limit, for which an answer that has begun may say nothing
REFUSALS = frozenset({400, 404, 413, 422})


def open_client(
    adaptations: Adaptations, *, timeout_seconds: float, ssl_context: ssl.SSLContext | None = None
) -> httpx2.AsyncClient:
    """Return a client for one provider. It belongs to the event loop in which it is first used."""
    return httpx2.AsyncClient(
        transport=_Transport(adaptations, timeout_seconds, ssl_context or default_ssl_context()),
        follow_redirects=False,
        trust_env=False,
        # The first byte may come when the model is done, so reading may use the whole time
        timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        headers={"user-agent": "erl"},
    )


class _Transport(httpx2.AsyncBaseTransport):
    """Sends a request again without what the model refused in it; raises `ProviderError` for what must not be read."""

    def __init__(self, adaptations: Adaptations, timeout_seconds: float, ssl_context: ssl.SSLContext) -> None:
        self._adaptations = adaptations
        self._silent_seconds = timeout_seconds * SILENT_SHARE
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0)
        self._inner = httpx2.AsyncHTTPTransport(verify=ssl_context, trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if fault := find_url_fault(str(request.url)):
            raise ProviderError(f"The provider cannot be used. {fault}", transient=False, code="egress_refused")
        body = _read_json(request)
        while True:
            adapted = self._adaptations.apply(request.url.path, body)
            response = await self._inner.handle_async_request(_with_body(request, adapted))
            _refuse_unreadable(response)
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            most = MAX_STREAM_BYTES if is_stream else MAX_ANSWER_BYTES
            response.stream = _Bounded(response.stream, most=most, silent_seconds=self._silent_seconds)
            if not adapted or response.status_code not in REFUSALS:
                return response
            # A refused request costs nothing, so the same question is asked again without what was refused.
            answer = httpx2.Response(
                response.status_code, headers=response.headers, content=await response.aread(), request=request
            )
            if not self._adaptations.learn(request.url.path, adapted, answer.text):
                return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


def _refuse_unreadable(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        message = "The provider sent a compressed answer, although none was requested."
        raise ProviderError(message, transient=False, code="bad_envelope")
    if 300 <= response.status_code < 400:
        message = (
            "The provider sent a redirect, and redirects are never followed. "
            "Set the address of the provider to the final URL."
        )
        raise ProviderError(message, transient=False, code="redirect", status=response.status_code)


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. It fails where it is too long, or stops in its middle."""

    def __init__(self, inner: Any, *, most: int, silent_seconds: float) -> None:
        self._inner = inner
        self._most = most
        self._silent_seconds = silent_seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        wait_seconds = None  # before the first bytes the model thinks
        chunks = aiter(self._inner)
        while True:
            try:
                async with asyncio.timeout(wait_seconds):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise httpx2.ReadTimeout("The answer stopped in its middle.") from error
            size += len(chunk)
            if size > self._most:
                message = f"The provider sent more than {self._most} bytes; the rest was not read."
                raise ProviderError(message, transient=False, code="response_too_large")
            yield chunk
            wait_seconds = self._silent_seconds

    async def aclose(self) -> None:
        await self._inner.aclose()


def _read_json(request: httpx2.Request) -> dict[str, Any]:
    """Return the JSON object that is sent; {} where it is something else, such as a list of models asked for."""
    try:
        body = json.loads(request.content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _with_body(request: httpx2.Request, body: dict[str, Any]) -> httpx2.Request:
    # No compression, which would bypass the limit on the size of answers
    headers = {**request.headers, "accept-encoding": "identity"}
    if not body:
        return httpx2.Request(
            request.method, request.url, headers=headers, content=request.content, extensions=request.extensions
        )
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers["content-length"] = str(len(content))
    return httpx2.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)
