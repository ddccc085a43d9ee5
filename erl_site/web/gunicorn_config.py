"""Gunicorn configuration: `gunicorn --config python:erl_site.web.gunicorn_config`."""

import gc
import sys
import threading
from typing import Any

from gunicorn.glogging import Logger

from erl_site.monitoring.logs import logging_config

_loaded = threading.Event()
worker_class = "erl_site.web.worker.WebWorker"
asgi_loop = "asyncio"
# Streams end with their readers, and threads finish all other requests anyway.
asgi_disconnect_grace_period = 0
# The longest that gunicorn accepts, since a GET may carry a task.
limit_request_line = 8190


class EventLogger(Logger):  # type: ignore[misc]
    """Gunicorn's logger without access lines; `request_finished` has the same data and the request id."""

    def access(self, *arguments: Any) -> None:
        """Do nothing, to save formatting a line that no handler writes."""


logger_class = EventLogger


def pre_fork(server: Any, worker: Any) -> None:
    """With --preload, load the embedding model once, so that all processes share its memory."""
    if server.cfg.preload_app:
        _load_embedder()
        gc.collect()
        gc.freeze()


def post_fork(server: Any, worker: Any) -> None:
    """Keep a process that is loading from being killed as hung: on a busy machine, loading takes minutes."""

    def show_life() -> None:
        while not _loaded.wait(1.0):
            worker.notify()

    _loaded.clear()
    threading.Thread(target=show_life, name="loading", daemon=True).start()


def post_worker_init(worker: Any) -> None:
    """Prepare the process, so that requests need not wait for the model, the broker or a frozen database."""
    try:
        _prepare(worker)
    finally:
        # From now on the worker shows by itself that it lives.
        _loaded.set()


def _prepare(worker: Any) -> None:
    from django.conf import settings

    from erl_site.monitoring.database_watch import watch_database
    from reflection.jobs.messages import sender

    _load_embedder()
    sender.send_in_background()
    watch_database(settings.ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS)
    # What was loaded stays. Looking through it for garbage took a tenth of a request.
    gc.freeze()


def _load_embedder() -> None:
    """Load the embedding model. Does nothing for other ASGI applications."""
    if "erl_site.asgi" in sys.modules:
        from memory.embeddings.registry import load_embedder

        load_embedder()


logconfig_dict = logging_config(level="INFO")  # until Django's settings are loaded
logconfig_dict["loggers"] |= {
    name: {"level": level, "handlers": [], "propagate": True}
    for name, level in (("gunicorn.error", "INFO"), ("gunicorn.access", "WARNING"))
}
