"""Gunicorn as this product runs it: `gunicorn --config python:erl_site.gunicorn_config`."""

import os
import sys
from typing import Any

from gunicorn.glogging import Logger

from erl_site.log_config import logging_config

# Before numpy is loaded: requests run beside each other, and a product of a small matrix is not worth other threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

worker_class = "erl_site.web_worker.WebWorker"
limit_request_line = 8190  # as much as gunicorn reads; a GET may carry a task


class EventLogger(Logger):  # type: ignore[misc]
    """Gunicorn's logger without access lines: `request_finished` says the same, with the request id."""

    def access(self, *arguments: Any) -> None:
        """Write nothing: the line would be composed and then not written."""


logger_class = EventLogger


def pre_fork(server: Any, worker: Any) -> None:
    """Do for all processes what only needs doing once, where the application is loaded before they are forked."""
    if server.cfg.preload_app:
        _warm_up()


def post_worker_init(worker: Any) -> None:
    """Let no request wait for what can be made before, nor for the broker, nor for a frozen database."""
    from django.conf import settings

    from erl_site.database_watch import watch_database
    from reflection.jobs.doorbell import doorbell

    _warm_up()
    doorbell.ring_in_background()
    watch_database(settings.ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS)
    if _serves_the_product():
        from erl_site.warming import warm_when_idle

        warm_when_idle(worker)


def _warm_up() -> None:
    if _serves_the_product():
        from erl_site.warming import warm_up

        warm_up()


def _serves_the_product() -> bool:
    """Tell whether this is the product, and not another application, which has other needs."""
    return "erl_site.wsgi" in sys.modules


logconfig_dict = logging_config(level="INFO")  # until Django's settings say otherwise
logconfig_dict["loggers"] |= {
    name: {"level": level, "handlers": [], "propagate": True}
    for name, level in (("gunicorn.error", "INFO"), ("gunicorn.access", "WARNING"))
}
