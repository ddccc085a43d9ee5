"""WSGI entry point for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", "5")  # nobody waits longer for a page
application = get_wsgi_application()
