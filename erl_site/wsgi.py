"""WSGI entry point for gunicorn."""

import os
from typing import Any

import django
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", "5")  # the longest wait for a page
django.setup(set_prefix=False)

# These read the settings, which take the time-out from above.
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest  # noqa: E402
from django.utils.http import parse_header_parameters  # noqa: E402


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever charset its content type names.

    Django would decode the query by that charset, outside its own error handling: a query of more than 1,000
    parameters, or a type that cannot be read, would raise an exception that only the server could answer.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, LookupError):  # a parameter in a charset that does not exist (RFC 2231)
            self.content_type, self.content_params = "", {}


class Utf8Handler(WSGIHandler):
    request_class = Utf8Request


application = Utf8Handler()
get_resolver().url_patterns  # noqa: B018  otherwise the first request loads the views, which takes seconds
