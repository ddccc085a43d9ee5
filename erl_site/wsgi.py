"""WSGI entry point for gunicorn."""

import os
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.urls import get_resolver

from memory.api.parsers import read_media_type

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", "5")  # nobody waits longer for a page


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever charset its content type names.

    Django would read the query by that charset, and that outside its own handling of errors: a query of more than
    1,000 parameters, or a type that cannot be read, would be an exception that nobody but the server makes an answer.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type, self.content_params = read_media_type(meta.get("CONTENT_TYPE", ""))


class Utf8Handler(WSGIHandler):
    request_class = Utf8Request


django.setup(set_prefix=False)
application = Utf8Handler()
get_resolver().url_patterns  # noqa: B018  Django would load the views at the first request, which waits for seconds
