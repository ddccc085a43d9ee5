"""Answers that a process gives without the application: problem documents (reliability A11)."""

import json
from uuid import uuid4

from django.http import HttpResponse

PROBLEM_TYPE = "application/problem+json"


def refuse(status: int, *, code: str, title: str, message: str, retry_seconds: int | None = None) -> HttpResponse:
    """Return a problem document. `retry_seconds` is for Retry-After; None if sending it again does not help."""
    request_id = str(uuid4())
    error = {
        "code": code,
        "message": message,
        "request_id": request_id,
        "retryable": retry_seconds is not None,
        "fields": {},
    }
    body = {"type": f"urn:erl:problem:{code}", "title": title, "status": status, "detail": message, "instance": ""}
    response = HttpResponse(json.dumps(body | {"error": error}), status=status, content_type=PROBLEM_TYPE)
    response["Content-Length"] = str(len(response.content))
    response["X-Request-ID"] = request_id
    if retry_seconds is not None:
        response["Retry-After"] = str(retry_seconds)
    return response


def malformed(status: int) -> HttpResponse:
    return refuse(
        status,
        code="invalid_request",
        title="The request is not valid",
        message="The request is not valid HTTP, or uses a part of it that this server does not. Correct it.",
    )


def not_utf8() -> HttpResponse:
    return refuse(
        400,
        code="invalid_query",
        title="A query parameter is not valid",
        message="The query is not UTF-8. Encode it as UTF-8, then with percent signs.",
    )


def address_too_long() -> HttpResponse:
    return refuse(
        414,
        code="request_too_large",
        title="The address is too long",
        message="The URL with its query is longer than this server accepts. Send long values in the body: POST "
        "/api/v1/retrieve takes a task of any length.",
    )


def head_too_large() -> HttpResponse:
    return refuse(
        431,
        code="request_too_large",
        title="The header fields are too large",
        message="The header fields are larger than this server accepts. Send fewer or shorter ones.",
    )


def too_slow(seconds: float) -> HttpResponse:
    return refuse(
        408,
        code="request_too_slow",
        title="The request came too slowly",
        message=f"The request was not complete within {seconds:.0f} seconds. Send it again over a faster connection.",
        retry_seconds=1,
    )


def too_many_streams() -> HttpResponse:
    return refuse(
        429,
        code="rate_limited",
        title="Too many streams",
        message="This key, its project or this person follows so many runs here that no more leave room for others. "
        "Close streams that you no longer read, or read the runs with GET.",
        retry_seconds=5,
    )


def too_many_in_flight(most: int) -> HttpResponse:
    return refuse(
        429,
        code="rate_limited",
        title="Too many requests",
        message=f"This API key has {most} requests in flight, as many as it may have. Wait for their answers before "
        "you send more.",
        retry_seconds=1,
    )
