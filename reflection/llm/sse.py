"""Read server-sent events within limits (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from collections.abc import Iterable, Iterator

MAX_STREAM_BYTES = 16 * 1024 * 1024  # each token comes in some 300 bytes of JSON
MAX_LINE_BYTES = 1024 * 1024


class StreamTooLarge(Exception):
    """A stream, or a line of it, is longer than the limit."""


def read_events(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event. An event that the end of the stream cuts off is left out.

    Names and ids of events are not read: providers repeat them in the data. Invalid UTF-8 becomes U+FFFD.

    Raises:
        StreamTooLarge: what is left would go over a limit.
    """
    data: list[str] = []
    for line in _read_lines(chunks):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line == "data" or line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def _read_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines that end. A chunk is searched once, so that time is linear in the bytes."""
    size, unfinished = 0, bytearray()
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_STREAM_BYTES:
            raise StreamTooLarge(f"more than {MAX_STREAM_BYTES} bytes")
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            unfinished += line
            yield unfinished.decode("utf-8", "replace").removesuffix("\r").removeprefix("\ufeff")
            unfinished.clear()
        unfinished += rest
        if len(unfinished) > MAX_LINE_BYTES:
            raise StreamTooLarge(f"a line of more than {MAX_LINE_BYTES} bytes")
