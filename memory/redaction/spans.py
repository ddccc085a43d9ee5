"""Where something was found in a text, and the literal search that every rule starts from."""

from collections.abc import Iterator
from typing import NamedTuple

SEPARATOR = "\x1e"  # stands between texts that are searched together; no rule matches across it


class Span(NamedTuple):
    """A found secret: `text[start:end]` is of `kind`."""

    start: int
    end: int
    kind: str


def places(raw: bytes, needle: bytes, *, step: int = 0) -> Iterator[int]:
    """Give every place where `needle` begins in `raw`, a text with one ASCII byte a character.

    `step`: how far one is from the next at least, where they may overlap.
    """
    step = step or len(needle)
    place = raw.find(needle)
    while place >= 0:
        yield place
        place = raw.find(needle, place + step)
