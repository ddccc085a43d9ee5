"""Request correlation (reliability A12)."""

import re
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from memory.ids import uuid7

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class RequestIdMiddleware:
    """Give every request an id, take the caller's where it is well-formed, and answer with it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else str(uuid7())
        trace = request.headers.get("traceparent", "")
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        if _TRACEPARENT.fullmatch(trace):
            structlog.contextvars.bind_contextvars(traceparent=trace)
        response = self.get_response(request)
        response["X-Request-ID"] = request_id
        return response
