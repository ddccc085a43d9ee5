"""The Celery application of workers, the scheduler and everything that rings their bell."""

import logging.config
import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init, setup_logging
from django.conf import settings

from erl_site.embedded import valkey

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")

app = Celery("erl")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
@beat_init.connect
def ensure_embedded_broker(**_: Any) -> None:
    """Start the embedded Valkey where no other broker is configured."""
    if settings.ERL_EMBEDDED_BROKER:
        valkey.ensure(settings.ERL_HOME / "valkey", durable=settings.ERL_EMBEDDED_DURABLE)


@setup_logging.connect
def use_our_logging(**_: Any) -> None:
    """Log as the web processes do: one JSON object a line on standard error."""
    logging.config.dictConfig(settings.LOGGING)
