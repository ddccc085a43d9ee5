"""Answer with an operation of the REST API, so that a tool has its checks, limits, transactions and idempotency."""

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import orjson
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.urls import resolve

# What says who sent a request, and to which host. The other header fields are about its own body.
_KEPT = ("HTTP_AUTHORIZATION", "HTTP_HOST", "REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL")
_PASSED_ON = ("RateLimit", "RateLimit-Policy", "Retry-After", "Idempotent-Replayed", "Original-Request-Id")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationAnswer:
    """What the operation answered; `headers` are those that also mean something outside."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


def call_operation(
    request: HttpRequest, method: str, path: str, *, values: dict[str, Any], idempotency_key: str = ""
) -> OperationAnswer:
    """Carry out an operation as the sender of this request. `values` are the query of a GET and the body of a POST."""
    content = b"" if method == "GET" else orjson.dumps(values)
    environ = {name: value for name, value in request.META.items() if name in _KEPT or name.startswith("wsgi.")}
    environ |= {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": urlencode(values) if method == "GET" else "",
        "CONTENT_TYPE": "application/json" if content else "",
        "CONTENT_LENGTH": str(len(content)),
        "wsgi.input": BytesIO(content),
    }
    if idempotency_key:
        environ["HTTP_IDEMPOTENCY_KEY"] = idempotency_key
    inner = WSGIRequest(environ)
    inner.resolver_match = match = resolve(path)
    response = match.func(inner, *match.args, **match.kwargs)
    if not getattr(response, "is_rendered", True):
        response.render()
    return OperationAnswer(
        status=response.status_code,
        body=json.loads(response.content),
        headers={name: response[name] for name in _PASSED_ON if name in response},
    )
