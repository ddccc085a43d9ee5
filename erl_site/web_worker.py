"""Gunicorn's threaded worker, which also knows how long a request waited for a thread."""

import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from erl_site.waiting import waited_seconds


class WebWorker(ThreadWorker):  # type: ignore[misc]
    """Measures the time from when a request could be read until a thread takes it; OverloadMiddleware acts on it."""

    def enqueue_req(self, conn: Any) -> None:
        conn.enqueued_at = time.monotonic()
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> Any:
        waited_seconds.set(time.monotonic() - conn.enqueued_at)
        return super().handle(conn)
