"""WSGI entry point for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", "5")  # nobody waits longer for a page
application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018  Django would load the views at the first request, which waits for seconds
