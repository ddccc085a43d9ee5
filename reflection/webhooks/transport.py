"""Send one message: to public addresses only, within a time limit, without following redirects or reading an answer."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpcore
import httpx
from django.conf import settings

from memory.connections import BoundedBackend, BoundedTransport, deadline, retry_after_seconds
from memory.egress import find_address_fault, find_project_url_fault
from reflection.errors import ReflectionError

TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 5.0


class DeliveryFailed(ReflectionError):
    """A message was not taken. `status` is what the receiver answered, if it did."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        transient: bool = True,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.transient = transient
        self.status = status
        self.retry_after_seconds = retry_after_seconds


def post(url: str, *, body: bytes, headers: dict[str, str]) -> int:
    """Send a body and return the status, which is 2xx. Nothing but the head of the answer is read.

    Raises:
        DeliveryFailed: the URL may not be used, or nothing took the message in time.
    """
    if fault := find_project_url_fault(url):
        raise DeliveryFailed(fault, code="egress_refused")
    client = httpx.Client(
        transport=BoundedTransport(backend=CheckedBackend()),
        # A redirect could lead to a private address, after the check of the first one.
        follow_redirects=False,
        # Not the environment's proxy: one that ERL was not told of would get around the check of addresses.
        trust_env=False,
        headers={"user-agent": "erl", "accept-encoding": "identity", **headers},
        timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
    )
    try:
        # httpx's timeouts are for each read; the deadline ends a receiver that sends a byte now and then.
        with client, deadline(TIMEOUT_SECONDS), client.stream("POST", url, content=body) as response:
            status, answered = response.status_code, response.headers
    except httpx.TimeoutException as error:
        raise DeliveryFailed(f"No answer within {TIMEOUT_SECONDS:.0f} seconds.", code="timeout") from error
    except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
        raise DeliveryFailed(f"The connection failed ({type(error).__name__}).", code="connection") from error
    if 200 <= status < 300:
        return status
    reason = f"It answered {status}."
    if 300 <= status < 400:
        reason = f"It answered {status}, a redirect, which is never followed. Change the URL to the final one."
    raise DeliveryFailed(
        reason, code=f"http_{status}", status=status, retry_after_seconds=retry_after_seconds(answered)
    )


class CheckedBackend(BoundedBackend):
    """Resolves a name once, checks every address that it stands for, and connects to these addresses alone.

    A proxy resolves names itself, and knows some that are unknown here. Those it has to judge.
    """

    def check(self, host: str, port: int) -> None:
        with suppress(httpcore.ConnectError):
            _resolve(host, port)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        if _is_proxy(host, port):  # which the operator named
            return super().connect_tcp(host, port, timeout, local_address, socket_options)
        failure: Exception = httpcore.ConnectError("The name stands for no address.")
        # Resolved once: asking again could give an address that was not checked (DNS rebinding).
        for address in _resolve(host, port):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def _is_proxy(host: str, port: int) -> bool:
    """Tell whether a connection is one to the operator's proxy. No project's host is reached directly beside it."""
    proxy = httpcore.URL(settings.ERL_HTTP_PROXY) if settings.ERL_HTTP_PROXY else None
    return proxy is not None and (host, port) == (proxy.host.decode("ascii"), proxy.port)


def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    Raises:
        DeliveryFailed: nothing may be sent to one of them.
    """
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError("The name of the host is not known.") from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in answers))
    # One forbidden address is enough to refuse the name, even beside public ones.
    for address in addresses:
        if fault := find_address_fault(host, address):
            raise DeliveryFailed(fault, code="egress_refused")
    return addresses
