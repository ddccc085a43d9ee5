"""A provider of a language model on loopback that answers what a test tells it to, in both wire formats.

    with ScriptedProvider(answer(lesson()), fails(429, retry_after="7")) as provider:
        settings.ERL_LLM_BASE_URL = provider.openai_url

It speaks OpenAI's chat completions and Anthropic's Messages, told apart by the path, and answers with what
tests/scripted_answers.py has. tests/reflection/providers/test_sdks.py proves it against the real SDKs.
"""

import json
import socket
import ssl
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Self

from tests.scripted_answers import Behaviour, Exchange, RecordedRequest, fails


class ScriptedProvider:
    """Plays its script, one behaviour a request, then `otherwise` for ever. Keeps every request."""

    def __init__(
        self, *script: Behaviour, otherwise: Behaviour | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self._script = deque(script)
        self._otherwise = otherwise or fails(500, message="The script has ended.")
        self._lock = Lock()
        self._stopping = Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *behaviours: Behaviour) -> None:
        """Add behaviours to the script."""
        with self._lock:
            self._script.extend(behaviours)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.close_connections()
        self._server.server_close()

    def play(self, request: RecordedRequest, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.requests.append(request)
            behaviour = self._script.popleft() if self._script else self._otherwise
        behaviour(Exchange(request, handler, self._stopping))


class _Server(ThreadingHTTPServer):
    owner: ScriptedProvider
    daemon_threads = True
    block_on_close = True
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.owner.connections += 1
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Wake the threads that wait for another request on a kept connection."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is part of the script."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = RecordedRequest(
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=json.loads(data) if data else {},
            data=data,
        )
        self.server.owner.play(request, self)

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.owner.play(RecordedRequest(path=self.path, headers=headers, body={}), self)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""
