"""Where requests to a provider may go: an httpx transport that checks every address before it connects.

Reliability D8 (OWASP API7:2023). The name is resolved once, *all* its addresses are judged, and the connection goes to
a judged address while Host and SNI keep the name, so a name that changes its address in between gains nothing.
"""

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from reflection.llm.addresses import is_loopback_literal, kind_of
from reflection.llm.base import ProviderError

MAX_ADDRESSES_TRIED = 4

Resolver = Callable[[str, int], list[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class EgressPolicy:
    """Which places the operator opened beyond public https hosts."""

    allow_loopback: bool = False
    allowed_hosts: frozenset[str] = frozenset()

    def check_url(self, url: httpx.URL) -> None:
        """Raise `ProviderError` unless a request to this address may be tried at all."""
        host = _plain(url.host)
        if url.scheme not in ("http", "https"):
            raise _refused("The provider's address must start with https://.")
        if not host:
            raise _refused("The provider's address names no host.")
        if url.userinfo:
            raise _refused("The provider's address must not contain a user name or password; use ERL_LLM_API_KEY.")
        if url.scheme == "http" and not (self._opens_loopback(host) or host in self.allowed_hosts):
            raise _refused(
                "The provider's address must start with https://. For a server on this machine set "
                "ERL_LLM_ALLOW_LOOPBACK=1; for one in your own network add its host to ERL_LLM_ALLOWED_HOSTS."
            )

    def checked_addresses(self, host: str, port: int, resolve: Resolver) -> list[str]:
        """Return the addresses of a host, or raise `ProviderError` if even one of them is out of bounds."""
        texts = resolve(host, port)
        for text in texts:
            try:
                permitted = self._permits(_plain(host), kind_of(ipaddress.ip_address(text)))
            except ValueError:  # a scoped address such as fe80::1%eth0
                permitted = False
            if not permitted:
                raise _refused(
                    "The provider's host leads to an address that is not public. For a server on this machine set "
                    "ERL_LLM_ALLOW_LOOPBACK=1 and call it localhost; for one in your own network add its host to "
                    "ERL_LLM_ALLOWED_HOSTS."
                )
        return texts

    def _permits(self, host: str, kind: str) -> bool:
        if host in self.allowed_hosts:
            return kind in ("public", "private", "loopback")
        if self._opens_loopback(host):
            return kind == "loopback"
        return kind == "public"

    def _opens_loopback(self, host: str) -> bool:
        # Not every name that leads to 127.0.0.1: somebody else may own the name
        return self.allow_loopback and (host in ("localhost", "::1") or is_loopback_literal(host))


class EgressTransport(httpx.BaseTransport):
    """Send requests under an `EgressPolicy`, over a pool of connections to judged addresses.

    `resolve` maps a host and port to addresses; it is a parameter so that a test can answer for the DNS.
    """

    def __init__(
        self,
        *,
        policy: EgressPolicy,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolver | None = None,
    ) -> None:
        self._policy = policy
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context or default_ssl_context(),
            max_connections=20,
            max_keepalive_connections=5,
            keepalive_expiry=30.0,
            network_backend=_CheckedBackend(policy, resolve or resolve_host),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._policy.check_url(request.url)
        assert isinstance(request.stream, httpx.SyncByteStream)
        with _httpx_errors():
            response = self._pool.handle_request(
                httpcore.Request(
                    method=request.method,
                    url=httpcore.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_ResponseStream(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


def resolve_host(host: str, port: int) -> list[str]:
    """Return every address of a host, in the system's order, without repeats."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError("The provider's host name cannot be resolved.") from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def default_ssl_context() -> ssl.SSLContext:
    """Trust what the system trusts, or SSL_CERT_FILE (a private authority); httpx's list where it has neither."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context()


_deadline: ContextVar[float | None] = ContextVar("provider_deadline", default=None)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bound everything inside together: connecting, TLS, sending and reading, however slowly bytes drip in.

    A deadline inside another ends no later than that.
    """
    end, outer = time.monotonic() + seconds, _deadline.get()
    token = _deadline.set(end if outer is None else min(end, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


def _bounded(timeout: float | None) -> float | None:
    end = _deadline.get()
    if end is None:
        return timeout
    left = end - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("The time for the whole call is up.")
    return left if timeout is None else min(timeout, left)


class _CheckedBackend(httpcore.NetworkBackend):
    def __init__(self, policy: EgressPolicy, resolve: Resolver) -> None:
        self._policy = policy
        self._resolve = resolve
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError("The provider's host name has no address.")
        for address in self._policy.checked_addresses(host, port, self._resolve)[:MAX_ADDRESSES_TRIED]:
            try:
                stream = self._inner.connect_tcp(address, port, _bounded(timeout), local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _BoundedStream(stream)
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise _refused("A provider is reached over TCP only.")


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose every read and write ends at the deadline of the call it serves."""

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


class _ResponseStream(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """Raise httpcore's failures as httpx's own of the same name, as httpx's transport does."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise getattr(httpx, type(error).__name__, httpx.TransportError)(str(error)) from error


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _refused(message: str) -> ProviderError:
    return ProviderError(message, transient=False, code="egress_refused")
