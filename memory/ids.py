"""Identifiers."""

import itertools
import os
import random
import time
import uuid
from collections.abc import Iterator
from threading import Lock

_lock = Lock()  # two threads must not use a generator at once
_repeatable: Iterator[tuple[int, int]] | None = None


def uuid7() -> uuid.UUID:
    """Make a time-ordered UUID, version 7 of RFC 9562 §5.7.

    48 bits of Unix milliseconds, then 74 random bits: new rows land at the right edge of a primary-key index, and
    an id discloses its creation time but cannot be guessed.
    """
    if _repeatable is None:
        milliseconds, noise = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10), "big")
    else:
        with _lock:
            milliseconds, noise = next(_repeatable)
    value = (milliseconds & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (noise >> 68 & 0xFFF) << 64  # version, rand_a
    value |= 0b10 << 62 | noise & (1 << 62) - 1  # variant, rand_b
    return uuid.UUID(int=value)


def repeat_ids(seed: str | None) -> None:
    """Make this process's ids from a seed, each a millisecond after the last; None ends it.

    Only for a process that has a database to itself, such as an evaluation: what is drawn by id, or ordered by it
    among equals, is then the same when the run is repeated. Such ids can be guessed.
    """
    global _repeatable
    if seed is None:
        _repeatable = None
        return
    numbers = random.Random(seed)  # noqa: S311 - meant to be repeated
    start = 1_700_000_000_000 + numbers.getrandbits(36)  # two seeds' ids do not meet
    _repeatable = ((milliseconds, numbers.getrandbits(80)) for milliseconds in itertools.count(start))
