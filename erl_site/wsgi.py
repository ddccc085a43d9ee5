"""WSGI entry point for gunicorn."""

import os

import django
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", "5")  # the longest wait for a page
django.setup(set_prefix=False)

from erl_site.handler import Utf8Handler  # noqa: E402  reads the settings, which take the time-out from above

application = Utf8Handler()
get_resolver().url_patterns  # noqa: B018  otherwise the first request loads the views, which takes seconds
