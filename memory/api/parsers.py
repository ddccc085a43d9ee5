"""What a request body may be: one JSON object in UTF-8, of bounded size."""

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.http.request import UnreadablePostError
from django.utils.http import parse_header_parameters
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from memory.api.errors import ErrorCode, Refusal
from memory.strict_json import InvalidJson, parse_json

_MAX_MEDIA_TYPE = 256


class StrictJSONParser(BaseParser):
    """Reads `application/json` and `+json` bodies by the rules of `memory.strict_json`.

    Not a subclass of DRF's JSONParser, which reads the whole body before this class sees it: here at most one byte
    more than the limit is read, also where the length is not announced.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        request: Request = (parser_context or {})["request"]
        _check_encoding(request, media_type or "")
        data = _read(stream, announced=request.META.get("CONTENT_LENGTH", ""))
        if not data:  # a chunked body may turn out to be none
            return {}
        document = parse_json(data)
        if not isinstance(document, dict):
            raise InvalidJson("Send one JSON object, not an array or a single value.")
        return document


class JsonNegotiation(DefaultContentNegotiation):
    """Chooses the JSON parser also for types such as `application/vnd.agent+json`."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        try:
            return super().select_renderer(request, renderers, format_suffix)
        except (ValueError, LookupError) as error:
            raise NotAcceptable from error

    def select_parser(self, request: Request, parsers: Any) -> Any:
        content_type = request.content_type or ""
        if len(content_type) > _MAX_MEDIA_TYPE:
            return None
        kind, _ = read_media_type(content_type)
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            return None
        return next((parser for parser in parsers if parser.media_type == "application/json"), None)


class ChunkedBody:
    """A body whose framing the server takes off, with the server's errors turned into Django's."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except Exception as error:  # each server has its own for a chunk that is none
            raise UnreadablePostError(*error.args) from error


class BodyRequest(Request):
    """A DRF request that also finds a body sent in chunks, of which Django knows no length."""

    @property
    def has_body(self) -> bool:
        return self.stream is not None

    @property
    def content_type(self) -> str:  # type: ignore[override]
        """The content type, or nothing where it cannot be read: DRF looks at its parameters also without a body."""
        given: str = super().content_type
        return given if read_media_type(given)[0] else ""

    def _load_stream(self) -> None:
        meta = self._request.META
        if not meta.get("CONTENT_LENGTH") and meta.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
            self._stream: Any = ChunkedBody(meta["wsgi.input"])
        else:
            super()._load_stream()  # type: ignore[misc]


def read_media_type(text: str) -> tuple[str, dict[str, str]]:
    """Return a media type and its parameters; nothing where a parameter is in a charset that is none (RFC 2231)."""
    try:
        kind, parameters = parse_header_parameters(text)
    except (ValueError, LookupError):
        return "", {}
    return kind, parameters


def _check_encoding(request: Request, media_type: str) -> None:
    coding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if coding not in ("", "identity"):
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body without Content-Encoding.")
    charset = read_media_type(media_type)[1].get("charset", "utf-8")
    if charset.strip("'\"").lower() not in ("utf-8", "utf8"):
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body in UTF-8.")


def _read(stream: IO[Any], *, announced: str) -> bytes:
    limit: int = settings.ERL_API_MAX_REQUEST_BYTES
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        while size <= limit and (chunk := stream.read(min(65536, limit + 1 - size))):
            chunks.append(chunk)
            size += len(chunk)
    except UnreadablePostError as error:
        raise InvalidJson("The body ended early.") from error
    if size > limit:
        raise _too_large(limit)
    return b"".join(chunks)


def _too_large(limit: int) -> Refusal:
    return Refusal(
        ErrorCode.REQUEST_TOO_LARGE,
        f"Send at most {limit:,} bytes; the operator can change this with ERL_API_MAX_REQUEST_BYTES.",
    )
