"""Gunicorn's threaded worker, which also knows how long a request waited for a thread."""

import json
import time
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from gunicorn import util
from gunicorn.http.errors import LimitRequestLine
from gunicorn.workers.gthread import ThreadWorker

# How long the current request waited for a thread; read by OverloadMiddleware.
waited_seconds: ContextVar[float] = ContextVar("waited_seconds", default=0.0)


class WebWorker(ThreadWorker):  # type: ignore[misc]
    """Measures how long a readable request waits for a thread; OverloadMiddleware acts on it."""

    def enqueue_req(self, conn: Any) -> None:
        conn.enqueued_at = time.monotonic()
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> Any:
        waited_seconds.set(time.monotonic() - conn.enqueued_at)
        return super().handle(conn)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a URL that is too long to be read with a problem, like every other refusal."""
        if not isinstance(exc, LimitRequestLine):
            super().handle_error(req, client, addr, exc)
            return
        self.log.warning("Invalid request: the address is too long")
        with suppress(OSError):
            util.write_nonblock(client, _TOO_LONG)


def _refuse_address() -> bytes:
    said = (
        "The address with its query is longer than this server reads. Send what is long in the body: POST "
        "/api/v1/retrieve takes a task of any length."
    )
    error = {"code": "request_too_large", "message": said, "request_id": "", "retryable": False, "fields": {}}
    problem = {
        "type": "urn:erl:problem:request_too_large",
        "title": "The address is too long",
        "status": 414,
        "detail": said,
        "instance": "",
        "error": error,
    }
    body = json.dumps(problem).encode()
    head = f"HTTP/1.1 414 URI Too Long\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


_TOO_LONG = _refuse_address()
