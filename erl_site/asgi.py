"""ASGI entry point for gunicorn."""

import os

import django
from django.conf import settings
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", "5")  # no page may take longer
django.setup(set_prefix=False)

import redis  # noqa: E402, F401 - the first request counts against a limit

from erl_site.web.application import Application  # noqa: E402 - it reads the settings

application = Application(
    max_body_bytes=settings.ERL_API_MAX_REQUEST_BYTES, most_in_flight=settings.ERL_API_MAX_IN_FLIGHT
)
get_resolver().url_patterns  # noqa: B018 - load the views now; it takes seconds
