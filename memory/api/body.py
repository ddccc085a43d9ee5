"""What a request body may be: one JSON object in UTF-8, of bounded size."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from memory.api.errors import DETAILS, ErrorCode, Refusal
from memory.limits import MAX_MEDIA_TYPE_CHARS
from memory.strict_json import InvalidJson, parse_json

_CHUNK_BYTES = 65_536


def has_body(request: HttpRequest) -> bool:
    """Tell whether a request announces a body, by its length or by sending it in chunks."""
    length = request.META.get("CONTENT_LENGTH")
    return bool(length != "0" if length else request.META.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked")


def read_body(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object in the body, {} where there is no body.

    Reads at most one byte more than the limit, also where the length is not announced.

    Raises:
        Refusal: it is too large, encoded, or of another media type.
        InvalidJson: it is not one JSON object that we can keep, or its sender stopped.
    """
    if not has_body(request):
        return {}
    kind = request.content_type or ""
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if not is_json or len(kind) > MAX_MEDIA_TYPE_CHARS:
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, DETAILS[ErrorCode.UNSUPPORTED_MEDIA_TYPE])
    if request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower() not in ("", "identity"):
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body without Content-Encoding.")
    if (request.content_params or {}).get("charset", "utf-8").strip("'\"").lower() not in ("utf-8", "utf8"):
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body in UTF-8.")
    data = _read_bytes(request, limit=settings.ERL_API_MAX_REQUEST_BYTES)
    document = parse_json(data) if data else {}  # a chunked body may turn out to be empty
    if not isinstance(document, dict):
        raise InvalidJson("Send one JSON object, not an array or a single value.")
    return document


def _read_bytes(request: HttpRequest, *, limit: int) -> bytes:
    announced = request.META.get("CONTENT_LENGTH") or ""
    stream = request if announced else request.META["wsgi.input"]  # Django reads nothing of a body sent in chunks
    chunks: list[bytes] = []
    size = int(announced) if announced.isdecimal() and int(announced) > limit else 0
    try:
        while size <= limit and (chunk := stream.read(min(_CHUNK_BYTES, limit + 1 - size))):
            chunks.append(chunk)
            size += len(chunk)
    except Exception as error:  # Django's UnreadablePostError, or the server's own for a broken chunk
        raise InvalidJson("The body ended early.") from error
    if size > limit:
        raise Refusal(
            ErrorCode.REQUEST_TOO_LARGE,
            f"Send at most {limit:,} bytes; the operator can change this with ERL_API_MAX_REQUEST_BYTES.",
        )
    return b"".join(chunks)
