"""Gunicorn's own messages in the shape of all other logs: `gunicorn --config python:erl_site.gunicorn_config`."""

from erl_site.log_config import logging_config

logconfig_dict = logging_config(level="INFO")  # until Django's settings say otherwise
logconfig_dict["loggers"] |= {
    name: {"level": level, "handlers": [], "propagate": True}
    for name, level in (("gunicorn.error", "INFO"), ("gunicorn.access", "WARNING"))
}
