"""Answers that a process gives without the application: problem documents (reliability A11), ready to be sent."""

import json
from uuid import uuid4


def write_refusal(status: str, *, code: str, title: str, message: str, retry_seconds: int | None = None) -> bytes:
    """Return a whole response, after which the connection closes.

    Args:
        status: as in the status line, for example "408 Request Timeout".
        retry_seconds: for Retry-After; None if sending it again does not help.
    """
    request_id = str(uuid4())
    number = int(status.partition(" ")[0])
    body = json.dumps(
        {
            "type": f"urn:erl:problem:{code}",
            "title": title,
            "status": number,
            "detail": message,
            "instance": "",
            "error": {
                "code": code,
                "message": message,
                "request_id": request_id,
                "retryable": retry_seconds is not None,
                "fields": {},
            },
        }
    ).encode()
    headers = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {request_id}",
        *([f"Retry-After: {retry_seconds}"] if retry_seconds is not None else []),
        "Connection: close",
    ]
    return "\r\n".join([*headers, "", ""]).encode() + body


def address_too_long() -> bytes:
    return write_refusal(
        "414 URI Too Long",
        code="request_too_large",
        title="The address is too long",
        message="The URL with its query is longer than this server accepts. Send long values in the body: POST "
        "/api/v1/retrieve takes a task of any length.",
    )


def head_too_large() -> bytes:
    return write_refusal(
        "431 Request Header Fields Too Large",
        code="request_too_large",
        title="The header fields are too large",
        message="The header fields are larger than this server accepts. Send fewer or shorter ones.",
    )


def too_slow(seconds: float) -> bytes:
    return write_refusal(
        "408 Request Timeout",
        code="request_too_slow",
        title="The request came too slowly",
        message=f"The request was not complete within {seconds:.0f} seconds. Send it again over a faster connection.",
        retry_seconds=1,
    )


def too_many_streams() -> bytes:
    return write_refusal(
        "429 Too Many Requests",
        code="rate_limited",
        title="Too many streams",
        message="This key, its project or this person follows so many runs here that no more leave room for others. "
        "Close streams that you no longer read, or read the runs with GET.",
        retry_seconds=5,
    )


def too_many_in_flight(most: int) -> bytes:
    return write_refusal(
        "429 Too Many Requests",
        code="rate_limited",
        title="Too many requests",
        message=f"This API key has {most} requests in flight, as many as it may have. Wait for their answers before "
        "you send more.",
        retry_seconds=1,
    )
