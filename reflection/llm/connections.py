"""Connections to providers of language models: bounded in time and size, with no redirect or compression.

The providers' SDKs are asynchronous, and all of them take an HTTP client of ours.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from math import isfinite
from typing import Any

import httpx2
from django.conf import settings

from memory.connections import default_ssl_context
from memory.egress import find_url_fault, goes_through_proxy
from reflection.llm.adaptations import Adaptations
from reflection.llm.base import ProviderError

MAX_ANSWER_BYTES = 1024 * 1024
MAX_STREAM_BYTES = 16 * 1024 * 1024  # a token of a stream comes in some 300 bytes of JSON
CONNECT_SECONDS = 5.0
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SILENT_SHARE = 1 / 3  # of the time limit, for which an answer that has begun may say nothing
REFUSALS = frozenset({400, 404, 413, 422})
# Errors inside an answer with status 200
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


def open_client(
    adaptations: Adaptations, *, timeout_seconds: float, has_key: bool, ssl_context: ssl.SSLContext | None = None
) -> httpx2.AsyncClient:
    """Return a client for one provider. It belongs to the event loop in which it is first used."""
    return httpx2.AsyncClient(
        transport=_Transport(adaptations, timeout_seconds, ssl_context or default_ssl_context(), has_key=has_key),
        follow_redirects=False,
        trust_env=False,
        # The first byte may come when the model is done, so reading may use the whole time
        timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        headers={"user-agent": "erl"},
    )


class _Transport(httpx2.AsyncBaseTransport):
    """Sends a request again without what the model refused in it; raises `ProviderError` for what must not be read."""

    def __init__(
        self, adaptations: Adaptations, timeout_seconds: float, ssl_context: ssl.SSLContext, *, has_key: bool
    ) -> None:
        self._adaptations = adaptations
        self._has_key = has_key
        self._silent_seconds = timeout_seconds * SILENT_SHARE
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0)
        self._inner = httpx2.AsyncHTTPTransport(verify=ssl_context, trust_env=False, limits=limits)
        self._proxied = self._inner
        if settings.ERL_HTTP_PROXY:
            proxy = httpx2.Proxy(settings.ERL_HTTP_PROXY)
            self._proxied = httpx2.AsyncHTTPTransport(verify=ssl_context, trust_env=False, limits=limits, proxy=proxy)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if fault := find_url_fault(str(request.url)):
            raise ProviderError(f"The provider cannot be used. {fault}", transient=False, code="egress_refused")
        route = self._proxied if goes_through_proxy(request.url.host) else self._inner
        # {} for what is no question, such as the request for the server's models.
        body = _read_object(request.content)
        # Each round leaves out one more thing; it ends, as `learn` finds each change only once.
        while True:
            adapted = self._adaptations.apply(request.url.path, body)
            response = await route.handle_async_request(self._write(request, adapted))
            _refuse_unreadable(response)
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            # A stream has hundreds of bytes of JSON for each token, so its limit is higher.
            most = MAX_STREAM_BYTES if is_stream else MAX_ANSWER_BYTES
            response.stream = _Bounded(response.stream, most=most, silent_seconds=self._silent_seconds)
            if is_stream and response.status_code == 200:
                response.stream = _Events(response.stream)
                return response
            try:
                content = await response.aread()
            finally:
                await response.aclose()
            # A refused request costs nothing, so the same question is asked again without what was refused.
            refused = adapted and response.status_code in REFUSALS
            if not refused or not self._adaptations.learn(
                request.url.path, adapted, content.decode("utf-8", "replace")
            ):
                return _understand(response, content, url=request.url, wants_stream=bool(adapted.get("stream")))

    def _write(self, request: httpx2.Request, body: dict[str, Any]) -> httpx2.Request:
        # No compression, which would bypass the limit on the size of answers
        headers = {**request.headers, "accept-encoding": "identity"}
        # The SDKs insist on a key, and so send one that is made up.
        if not self._has_key:
            headers.pop("authorization", None)
        content = request.content
        if body:
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
            headers["content-length"] = str(len(content))
        return httpx2.Request(
            request.method, request.url, headers=headers, content=content, extensions=request.extensions
        )

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._proxied.aclose()


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


def _understand(response: httpx2.Response, content: bytes, *, url: httpx2.URL, wants_stream: bool) -> httpx2.Response:
    """Return an answer that was read, as what it is: some gateways report failures with status 200, and some servers
    answer a request for a stream with a whole chat completion.
    """
    status, kind = response.status_code, response.headers.get("content-type", "application/json")
    # An address without the path of the API often answers with the server's web page.
    if status == 200 and (kind.startswith("text/html") or content.lstrip()[:1] == b"<"):
        message = f"{str(url).partition('?')[0]} answered with a web page. Check the address of the provider."
        raise ProviderError(message, transient=False, code="not_an_api", status=200)
    if status == 200 and (body := _read_object(content)):
        # Some gateways report failures with status 200.
        if body.get("error") and not body.get("choices"):
            status = _status_of(body["error"])
        elif isinstance(body.get("choices"), list) and body["choices"]:
            _fill(body)
            kind, content = ("text/event-stream", _write_chunks(body)) if wants_stream else (kind, _dump(body))
    # What else the headers say is about the bytes as they came.
    kept = {
        name: value for name, value in response.headers.items() if name in ("retry-after", "retry-after-ms", "date")
    }
    return httpx2.Response(status, headers={**kept, "content-type": kind}, content=content)


def _status_of(error: Any) -> int:
    """Return the status that an error inside an answer with status 200 stands for."""
    codes = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
    numbers = (STATUSES.get(name) if isinstance(name, str) else name for name in codes)
    # 502 where it says nothing: a later try may help.
    return next((number for number in numbers if isinstance(number, int) and 400 <= number <= 599), 502)


def _fill(body: dict[str, Any]) -> None:
    """Give a chat completion the members that the SDK's types insist on, and that nothing depends on."""
    body |= {"id": str(body.get("id") or ""), "object": "chat.completion", "model": str(body.get("model") or "")}
    body["created"] = body["created"] if isinstance(body.get("created"), int) else 0
    body["usage"] = _read_usage(body.get("usage"))
    for index, choice in enumerate(body["choices"]):
        if isinstance(choice, dict) and isinstance(message := choice.get("message"), dict):
            choice["index"] = index
            message["role"] = "assistant"
            if choice.get("finish_reason") is not None and not isinstance(choice["finish_reason"], str):
                choice["finish_reason"] = "stop"
            if not isinstance(message.get("tool_calls"), list):
                # The form from before there were tools.
                function = message.pop("function_call", None)
                message["tool_calls"] = [{"function": function}] if isinstance(function, dict) else None
            for call in message["tool_calls"] or ():
                if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
                    call |= {"id": str(call.get("id") or ""), "type": "function"}
                    function["name"] = str(function.get("name") or "")
                    if not isinstance(function.get("arguments"), str):
                        function["arguments"] = json.dumps(function.get("arguments") or {}, ensure_ascii=False)


def _read_usage(usage: Any) -> dict[str, int] | None:
    """Return the tokens that a server counted; some send floats, null, or details of their own."""
    counts: list[Any] = []
    if isinstance(usage, dict):
        counts = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    if not counts or not all(isinstance(count, int | float) and isfinite(count) for count in counts):
        return None
    asked, answered = (int(count) for count in counts)
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _write_chunks(body: dict[str, Any]) -> bytes:
    """Return a whole chat completion as the stream of one chunk."""
    choices = []
    for choice in body["choices"]:
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            continue
        calls = [{"index": index, **call} for index, call in enumerate(choice["message"].get("tool_calls") or ())]
        delta = {**choice["message"], "tool_calls": calls}
        choices.append({"index": 0, "delta": delta, "finish_reason": choice.get("finish_reason") or "stop"})
    chunk = {**body, "object": "chat.completion.chunk", "choices": choices}
    return b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. It fails where it is too long, or stops in its middle."""

    def __init__(self, inner: Any, *, most: int, silent_seconds: float) -> None:
        self._inner = inner
        self._most = most
        self._silent_seconds = silent_seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        # Before the first bytes the model thinks, which takes as long as it takes.
        wait_seconds = None
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
                raise _too_large(self._most)
            yield chunk
            wait_seconds = self._silent_seconds

    async def aclose(self) -> None:
        await self._inner.aclose()


def _too_large(most: int) -> ProviderError:
    message = f"The provider sent more than {most} bytes; the rest was not read."
    return ProviderError(message, transient=False, code="response_too_large")


class _Events(httpx2.AsyncByteStream):
    """The events of a stream without what the SDKs stumble over: a byte-order mark, and lines of data without any."""

    def __init__(self, inner: _Bounded) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun, is_first = bytearray(), True
        async for chunk in self._inner:
            end = chunk.rfind(b"\n") + 1
            begun += chunk[:end] if end else chunk
            if len(begun) > MAX_ANSWER_BYTES:
                raise _too_large(MAX_ANSWER_BYTES)
            if end:
                # Cut at line ends, as a chunk may end in the middle of an event.
                lines = bytes(begun).removeprefix(BYTE_ORDER_MARK) if is_first else bytes(begun)
                is_first = False
                yield b"".join(line for line in lines.splitlines(keepends=True) if line.strip() != b"data:")
                begun = bytearray(chunk[end:])
        yield bytes(begun)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _read_object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
