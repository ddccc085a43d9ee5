"""Identifiers."""

import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """Make a time-ordered UUID, version 7 of RFC 9562 §5.7.

    48 bits of Unix milliseconds, then 74 random bits: new rows land at the right edge of a primary-key index, and
    an id discloses its creation time but cannot be guessed.
    """
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 68 & 0xFFF) << 64  # version, rand_a
    value |= 0b10 << 62 | random & (1 << 62) - 1  # variant, rand_b
    return uuid.UUID(int=value)
