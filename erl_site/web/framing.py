"""Where a request ends: collects the bytes of a connection until a request is whole (RFC 9112 §6).

It only looks for the end. Whether a request is well-formed is decided by gunicorn's parser, which sees the same bytes;
what cannot be framed, or is larger than the server takes, is handed over as it is and ends its connection.
"""

import re
from dataclasses import dataclass

MAX_HEAD_BYTES = 65_536
MAX_LINE_BYTES = 8192  # of the request and of a chunk's size; gunicorn refuses longer ones
MAX_CHUNK_OVERHEAD = 8  # times the largest body: chunks of one byte take six

_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:([^\r\n]*)(?=\r\n)", re.IGNORECASE)
_CODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:([^\r\n]*)(?=\r\n)", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect[ \t]*:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
_CREDENTIAL = re.compile(rb"\r\nauthorization[ \t]*:([^\r\n]*)(?=\r\n)", re.IGNORECASE)
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")


class HeadTooLarge(Exception):
    """The header fields are larger than the server reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RawRequest:
    """The bytes of one request. If `is_cut`, more was announced than was read, so no other request can follow."""

    data: bytes
    is_cut: bool = False

    @property
    def path(self) -> bytes:
        """The path without its query, b"" if there is none."""
        parts = self.data[:MAX_LINE_BYTES].split(b"\r\n", 1)[0].split(b" ")
        return parts[1].partition(b"?")[0] if len(parts) == 3 else b""

    @property
    def credential(self) -> bytes:
        """What Authorization says after its scheme, b"" if there is none.

        Read as the API reads it, so that other spaces or letters of the scheme make no other client of one key.
        """
        found = _CREDENTIAL.search(self.data, 0, _end_of_head(self.data))
        said = found[1].decode("latin-1").strip() if found else ""
        return said.partition(" ")[2].strip().encode("latin-1")


class RequestBuffer:
    """The bytes of one connection that belong to no request yet."""

    def __init__(self, *, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._data = bytearray()
        self._begin()

    def __len__(self) -> int:
        return len(self._data)

    @property
    def has_head(self) -> bool:
        """Whether the header fields of the next request are there."""
        return self._body_at > 0

    @property
    def expects_continue(self) -> bool:
        """Whether the client wants to be asked before it sends the body."""
        return self.has_head and _EXPECT.search(self._data, 0, self._body_at) is not None

    def feed(self, data: bytes | memoryview) -> None:
        self._data += data

    def take(self) -> RawRequest | None:
        """Remove and return the next request; None if it is not whole yet.

        Raises:
            HeadTooLarge: its header fields are.
        """
        if not self.has_head and not self._find_head():
            if len(self._data) > MAX_LINE_BYTES and self._data.find(b"\r\n", 0, MAX_LINE_BYTES) < 0:
                return self.cut()  # gunicorn says what is wrong with a line as long as this
            if len(self._data) > MAX_HEAD_BYTES:
                raise HeadTooLarge
            return None
        try:
            end = self._find_chunked_end() if self._is_chunked else self._body_at + self._find_length()
        except ValueError:  # it cannot be framed, or is too large; the answer says so
            return self.cut()
        if end is None or end > len(self._data):
            return None
        request = RawRequest(data=bytes(self._data[:end]))
        del self._data[:end]
        self._begin()
        return request

    def cut(self) -> RawRequest:
        """Remove and return what is there of a request that will not be whole."""
        request = RawRequest(data=bytes(self._data), is_cut=True)
        self._data.clear()
        self._begin()
        return request

    def _begin(self) -> None:
        self._searched = 0
        self._body_at = 0
        self._is_chunked = False
        self._length: int | None = None
        self._chunk_at, self._chunked_bytes = 0, 0

    def _find_head(self) -> bool:
        at = self._data.find(b"\r\n\r\n", max(0, self._searched - 3))
        self._searched = len(self._data)
        if at < 0:
            return False
        self._body_at = self._chunk_at = at + 4
        self._is_chunked = _CODING.search(self._data, 0, self._body_at) is not None
        return True

    def _read_fields(self, field: re.Pattern[bytes]) -> list[bytes]:
        return [value.strip(b" \t") for value in field.findall(self._data, 0, self._body_at)]

    def _find_length(self) -> int:
        if self._length is None:
            lengths = self._read_fields(_LENGTH)
            if len(lengths) > 1 or not all(length.isdigit() and len(length) < 19 for length in lengths):
                raise ValueError("The length is ambiguous.")
            self._length = int(lengths[0]) if lengths else 0
        if self._length > self._max_body_bytes:
            raise ValueError("The body is too large.")
        return self._length

    def _find_chunked_end(self) -> int | None:
        """Return where the last chunk's trailers end; None if they are not there yet."""
        codings = self._read_fields(_CODING)
        if [coding.lower() for coding in codings] != [b"chunked"] or _LENGTH.search(self._data, 0, self._body_at):
            raise ValueError("The transfer coding is unknown, or contradicts a length.")
        if len(self._data) - self._body_at > MAX_CHUNK_OVERHEAD * self._max_body_bytes:
            raise ValueError("The body is too large.")
        while (line_end := self._data.find(b"\r\n", self._chunk_at, self._chunk_at + MAX_LINE_BYTES)) >= 0:
            digits = _SIZE.match(self._data, self._chunk_at, line_end)
            if digits is None:
                raise ValueError("A chunk has no size.")
            size = int(digits[0], 16)
            if size == 0:
                end = self._data.find(b"\r\n\r\n", line_end)
                if end < 0 and len(self._data) - line_end > MAX_HEAD_BYTES:
                    raise ValueError("The trailers are too large.")
                return end + 4 if end >= 0 else None
            next_at = line_end + 2 + size + 2
            received = min(size, len(self._data) - line_end - 2)
            if self._chunked_bytes + received > self._max_body_bytes:
                raise ValueError("The body is too large.")
            if next_at > len(self._data):
                return None
            self._chunk_at = next_at
            self._chunked_bytes += size
        if len(self._data) - self._chunk_at > MAX_LINE_BYTES:
            raise ValueError("The size of a chunk is too long.")
        return None


def _end_of_head(data: bytes) -> int:
    at = data.find(b"\r\n\r\n")
    return at + 4 if at >= 0 else len(data)
