"""Something that answers in ERL's place, and wrongly."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

Fault: TypeAlias = Callable[["_Handler"], None]
SLOW_SECONDS = 10.0


def server_error(handler: "_Handler") -> None:
    handler.send(500, b"<h1>Server Error (500)</h1>")


def limited(handler: "_Handler") -> None:
    """Answer as nginx does to more than its `client_max_body_size`."""
    handler.send(413, b"<html><h1>413 Request Entity Too Large</h1></html>")


def garbage(handler: "_Handler") -> None:
    handler.send(200, b"\x00\xff not what you asked for")


def throttled(handler: "_Handler") -> None:
    error = b'{"error": {"code": "rate_limited", "message": "Too many requests.", "retryable": true}}'
    handler.send(429, error, {"Retry-After": "60"})


def slow(handler: "_Handler") -> None:
    handler.owner.stopping.wait(SLOW_SECONDS)
    server_error(handler)


class BrokenErl:
    """A server with one fault. `paths` are those it was asked for."""

    def __init__(self, fault: Any) -> None:
        self.fault: Fault = fault
        self.paths: list[str] = []
        self.stopping = threading.Event()
        owner = self

        class Handler(_Handler):
            pass

        Handler.owner = owner
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: BrokenErl

    def do_POST(self) -> None:
        self.owner.paths.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.owner.fault(self)

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""
