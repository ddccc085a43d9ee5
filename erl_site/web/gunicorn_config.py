"""Gunicorn as this product runs it: `gunicorn --config python:erl_site.web.gunicorn_config`."""

import os
import sys
from contextlib import suppress
from typing import Any

from gunicorn.glogging import Logger

from erl_site.monitoring.logs import logging_config

# Before numpy is loaded: requests run in parallel, and a product of a small matrix is not worth more threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

worker_class = "erl_site.web.worker.WebWorker"
limit_request_line = 8190  # as much as gunicorn reads; a GET may carry a task


class EventLogger(Logger):  # type: ignore[misc]
    """Gunicorn's logger without access lines: `request_finished` says the same, with the request id."""

    def access(self, *arguments: Any) -> None:
        """Write nothing: the line would be composed and then not written."""


logger_class = EventLogger


def pre_fork(server: Any, worker: Any) -> None:
    """With --preload, load the embedding model once for all processes, which then share its memory."""
    if server.cfg.preload_app:
        _load_embedder()


def post_worker_init(worker: Any) -> None:
    """Let no request wait for the embedding model, the broker or a frozen database."""
    from django.conf import settings

    from erl_site.monitoring.database_watch import watch_database
    from reflection.jobs.doorbell import doorbell

    _load_embedder()
    doorbell.ring_in_background()
    watch_database(settings.ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS)


def _load_embedder() -> None:
    """Load the bundled model, which takes about a second, unless another application than the product is served."""
    if "erl_site.wsgi" not in sys.modules:
        return
    from memory.embeddings.minilm import MiniLM
    from memory.embeddings.registry import get_embedder
    from memory.errors import EmbedderError

    with suppress(EmbedderError):  # /ready and the first request say so
        embedder = get_embedder()
        if isinstance(embedder, MiniLM):
            embedder.warm_up()


logconfig_dict = logging_config(level="INFO")  # until Django's settings say otherwise
logconfig_dict["loggers"] |= {
    name: {"level": level, "handlers": [], "propagate": True}
    for name, level in (("gunicorn.error", "INFO"), ("gunicorn.access", "WARNING"))
}
