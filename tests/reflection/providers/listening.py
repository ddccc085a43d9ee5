"""A socket that counts who connects to it, and requests through the guarded transport."""

import socket
from threading import Thread

import httpx

from reflection.llm.transport import EgressPolicy, EgressTransport, Resolver, default_ssl_context

CLOSED = EgressPolicy()
OPEN_LOOPBACK = EgressPolicy(allow_loopback=True)
TRUSTS_SYSTEM = default_ssl_context()


class Listener:
    """A socket on all local addresses that counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        self._thread = Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


def transport(policy: EgressPolicy, resolve: Resolver | None = None) -> EgressTransport:
    return EgressTransport(policy=policy, ssl_context=TRUSTS_SYSTEM, resolve=resolve)


def fetch(url: str, through: EgressTransport) -> httpx.Response:
    with httpx.Client(transport=through, trust_env=False, timeout=2) as client:
        return client.post(url, json={})
