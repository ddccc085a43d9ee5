"""The WSGI handler."""

from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

from memory.api.parsers import read_media_type


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever charset its content type names.

    Django would decode the query by that charset, outside its own error handling: a query of more than 1,000
    parameters, or a type that cannot be read, would raise an exception that only the server could answer.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type, self.content_params = read_media_type(meta.get("CONTENT_TYPE", ""))


class Utf8Handler(WSGIHandler):
    request_class = Utf8Request
