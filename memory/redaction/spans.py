"""Spans of found secrets, and the literal search that every rule starts from."""

from collections.abc import Iterator
from typing import NamedTuple

SEPARATOR = "\x1e"  # between texts that are searched together; no rule matches across it


class Span(NamedTuple):
    """A found secret: `text[start:end]` is of `kind`."""

    start: int
    end: int
    kind: str


def find_all(raw: bytes, needle: bytes, *, step: int = 0) -> Iterator[int]:
    """Yield every position of `needle` in `raw`, which has one ASCII byte per character.

    Args:
        step: least distance between two positions; by default they do not overlap.
    """
    step = step or len(needle)
    position = raw.find(needle)
    while position >= 0:
        yield position
        position = raw.find(needle, position + step)
