"""Middleware: request id and trace (reliability A12), overload protection and content security policy."""

import re
import secrets
import time
from collections.abc import Callable
from http import HTTPStatus

import structlog
from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from erl_site.web.application import waited_seconds
from memory.api.errors import ErrorCode, problem
from memory.ids import uuid7

log = structlog.get_logger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
OVERLOAD_RETRY_SECONDS = 1
_QUIET_PATHS = frozenset({"/health", "/ready", "/waiting"})  # polled every few seconds by monitoring


class RequestIdMiddleware:
    """Give every request an id, or keep the client's if it is well-formed, and return it.

    Binds the id and the trace to every log line of the request (structlog's context variables `request_id` and
    `traceparent`); code that queues work copies both to the job. Logs one `request_finished` per request.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        given = request.headers.get("X-Request-ID", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else str(uuid7())
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        if trace := child_trace(request.headers.get("traceparent", "")):
            structlog.contextvars.bind_contextvars(traceparent=trace)
        response = self.get_response(request)
        response["X-Request-ID"] = request_id
        response.headers.setdefault("Cache-Control", "private, no-store")  # what may be kept says so itself
        if (
            response.status_code == HTTPStatus.NOT_MODIFIED
        ):  # Django's is 0, not that of the full response (RFC 9110 8.6)
            del response["Content-Length"]
        _log_finished(request, response, milliseconds=(time.perf_counter() - started) * 1000)
        # The variables stay bound, because Django may still log.
        return response


_OF_CLIENTS = ("/api/v1/", "/otlp/v1/")


class OverloadMiddleware:
    """Refuse API requests that waited too long for a thread.

    Otherwise requests beyond the machine's capacity would queue up, and every answer would be late.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        limit = settings.ERL_API_MAX_WAIT_SECONDS
        if limit and waited_seconds.get() > limit and request.path_info.startswith(_OF_CLIENTS):
            headers = {"Retry-After": str(OVERLOAD_RETRY_SECONDS)}
            response = problem(ErrorCode.OVERLOADED, request=request, headers=headers)
            # This runs outside of CommonMiddleware, which would set it.
            response["Content-Length"] = str(len(response.content))
            return response
        return self.get_response(request)


class PolicyMiddleware(CSPMiddleware):
    """Adds the content security policy, built once for all API responses."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        super().__init__(get_response)
        self._policy = build_policy()

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if request.path_info.startswith("/api/v1/"):
            response.headers.setdefault(HEADER, self._policy)
            return response
        return super().process_response(request, response)


def child_trace(traceparent: str) -> str:
    """Return the context of a child span in the client's trace (W3C Trace Context §3), or "" without a valid one.

    Later versions may append fields, which are dropped; version 00 may not have any.
    """
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None or (match[1] == "00" and match[5]):
        return ""
    span = secrets.token_hex(8)
    sampled = int(match[4], 16) & 1
    return f"00-{match[2]}-{span}-{sampled:02x}"


def _log_finished(request: HttpRequest, response: HttpResponse, *, milliseconds: float) -> None:
    route = request.resolver_match.route if request.resolver_match else ""
    write = log.debug if request.path_info in _QUIET_PATHS else log.info
    write(
        "request_finished",
        method=request.method,
        route=route,
        status=response.status_code,
        duration_ms=round(milliseconds, 1),
    )
