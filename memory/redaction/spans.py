"""Where something was found in a text, and the literal search that every rule starts from."""

from collections.abc import Iterator
from typing import NamedTuple

SEPARATOR = "\x1e"  # stands between texts that are searched together; no rule matches across it


class Span(NamedTuple):
    """A found secret: `text[start:end]` is of `kind`."""

    start: int
    end: int
    kind: str


def places(text: str, needle: str) -> Iterator[int]:
    """Give every place where `needle` begins in `text`."""
    place = text.find(needle)
    while place >= 0:
        yield place
        place = text.find(needle, place + len(needle))
