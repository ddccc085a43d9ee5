"""The Celery application, shared by workers, the scheduler and processes that send messages."""

import gc
import logging.config
import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_after_setup, celeryd_init, setup_logging, task_postrun, task_prerun
from django.conf import settings
from django.db import close_old_connections

from erl_site.embedded import valkey
from erl_site.embedded.home import EmbeddedServerError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
# Celery would run Django's checks in every worker, which load all pages, and look at none of their results
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("erl")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
@beat_init.connect
def ensure_embedded_broker(**_: Any) -> None:
    """Start the embedded Valkey if no other broker is configured."""
    if not settings.ERL_EMBEDDED_BROKER:
        return
    try:
        valkey.ensure(settings.ERL_HOME / "valkey", durable=settings.ERL_EMBEDDED_DURABLE)
    except EmbeddedServerError as error:
        # Celery logs any other exception with a traceback, and goes on.
        raise SystemExit(str(error)) from None


@task_prerun.connect
@task_postrun.connect
def check_connections(**_: Any) -> None:
    """Keep the database connection between tasks as between requests, for up to CONN_MAX_AGE."""
    close_old_connections()


@celeryd_after_setup.connect
def freeze_objects(**_: Any) -> None:
    """Take what is loaded out of garbage collections.

    Celery has one in the main process before it replaces a process that died. Over everything it takes long, and
    nothing else happens meanwhile. Apps load what their tasks need at `worker_init`, which comes before.
    """
    gc.collect()
    gc.freeze()


@setup_logging.connect
def configure_logging(**_: Any) -> None:
    """Use the same JSON logging as the web processes."""
    logging.config.dictConfig(settings.LOGGING)
