"""HTTP connections that respect a deadline for a whole call, and what answers say about the next one."""

import re
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import httpcore
import httpx
from django.conf import settings

from memory.egress import goes_through_proxy

MAX_RETRY_AFTER_SECONDS = 3600.0
_deadline: ContextVar[float | None] = ContextVar("deadline_of_calls", default=None)


class BoundedTransport(httpx.HTTPTransport):
    """httpx's transport, with connections that respect `deadline`, through ERL_HTTP_PROXY where that is set."""

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None, backend: "BoundedBackend | None" = None) -> None:
        context = ssl_context or default_ssl_context()
        super().__init__(verify=context, trust_env=False)
        backend = backend or BoundedBackend()
        options: dict[str, Any] = {
            "ssl_context": context,
            "max_connections": 20,
            "max_keepalive_connections": 5,
            "keepalive_expiry": 30.0,
            "network_backend": backend,
        }
        # httpx has no parameter for the network backend, so its pool is replaced.
        if settings.ERL_HTTP_PROXY:
            self._pool = _ProxyPool(backend, **options)
        else:
            self._pool = httpcore.ConnectionPool(**options)


class _ProxyPool(httpcore.HTTPProxy):
    """Connections through the operator's proxy, and direct ones to the hosts that need none."""

    def __init__(self, backend: "BoundedBackend", **options: Any) -> None:
        proxy = httpx.Proxy(settings.ERL_HTTP_PROXY)
        url = httpcore.URL(str(proxy.url))
        if url.scheme == b"https":
            options["proxy_ssl_context"] = default_ssl_context()
        super().__init__(url, proxy_auth=proxy.raw_auth, **options)
        self._backend = backend

    def handle_request(self, request: httpcore.Request) -> httpcore.Response:
        host = request.url.host.decode("ascii")
        if goes_through_proxy(host):
            self._backend.check(host, request.url.port or 443)
        return super().handle_request(request)

    def create_connection(self, origin: httpcore.Origin) -> httpcore.ConnectionInterface:
        if goes_through_proxy(origin.host.decode("ascii")):
            return super().create_connection(origin)
        return httpcore.ConnectionPool.create_connection(self, origin)


def default_ssl_context() -> ssl.SSLContext:
    """Trust the system's certificates or SSL_CERT_FILE (for a private authority), otherwise httpx's own list."""
    paths = ssl.get_default_verify_paths()
    return _read_certificates(paths)


@lru_cache(maxsize=4)  # reading them takes longer than many a request
def _read_certificates(paths: ssl.DefaultVerifyPaths) -> ssl.SSLContext:
    if paths.cafile is None and paths.capath is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Limit the total time of everything inside: connecting, TLS, sending and reading.

    A nested deadline never extends the outer one.
    """
    end, outer = time.monotonic() + seconds, _deadline.get()
    token = _deadline.set(end if outer is None else min(end, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(limit: float | None) -> float | None:
    """Return how long a call may take: until the `deadline` around it, and no longer than `limit` seconds."""
    end = _deadline.get()
    if end is None:
        return limit
    left = max(end - time.monotonic(), 0.0)
    return left if limit is None else min(limit, left)


def _bounded(timeout: float | None) -> float | None:
    left = seconds_left(timeout)
    # A timeout of 0 would make the socket non-blocking.
    if left == 0:
        raise httpcore.ReadTimeout("The time limit of the call has passed.")
    return left


class BoundedBackend(httpcore.SyncBackend):
    """Opens connections that respect `deadline`."""

    def check(self, host: str, port: int) -> None:
        """Raise an error if nothing may be sent to a host, which a proxy is about to connect to."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _BoundedStream(super().connect_tcp(host, port, _bounded(timeout), local_address, socket_options))


class _BoundedStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _bounded(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _bounded(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _BoundedStream(self._inner.start_tls(ssl_context, server_hostname, _bounded(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the requested wait of up to one hour, given in seconds or as an HTTP date (RFC 9110 10.2.3).

    A date is compared with the answer's own `Date` if there is one, since the local clock may be wrong.
    """
    text = headers.get("retry-after", "").strip()
    milliseconds = headers.get("retry-after-ms", "").strip()  # more exact, at OpenAI and Azure
    try:
        seconds = float(milliseconds) / 1000 if re.fullmatch(r"-?[0-9]{1,15}", milliseconds) else float(text)
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
