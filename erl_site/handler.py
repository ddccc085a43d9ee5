"""What turns a WSGI environment into an answer."""

from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters


class Utf8Request(WSGIRequest):
    """A request in UTF-8, whatever charset its content type names.

    Django would read the query by that charset, and that outside its own handling of errors: a query of more than
    1,000 parameters, or a type that cannot be read, would be an exception that nobody but the server makes an answer.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, LookupError):  # a parameter in a charset that does not exist (RFC 2231)
            self.content_type, self.content_params = "", {}


class Utf8Handler(WSGIHandler):
    request_class = Utf8Request
