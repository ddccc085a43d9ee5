"""Which readers get a stream: an answer that goes on until its run ends."""

from collections import Counter
from collections.abc import Sequence

MOST_STREAMS = 256  # in a process; each costs a connection


class Seats:
    """How many streams there may be, and whose they are. Used by the event loop's thread alone.

    A stream can last for days, so what is taken is not soon free. A key or a person never holds more than are left to
    others, and all keys of a project together at most three times as many, so that some are left for others.
    """

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._taken = 0
        self._held: Counter[str] = Counter()

    def take(self, holders: Sequence[str]) -> bool:
        """Take one for a reader and what it is part of; return whether there was one for them."""
        left = self._most - self._taken
        if any(self._held[holder] >= left * share for holder, share in zip(holders, (1, 3), strict=False)):
            return False
        self._taken += 1
        self._held.update(holders)
        return True

    def give_back(self, holders: Sequence[str]) -> None:
        self._taken -= 1
        self._held.subtract(holders)
        self._held = +self._held  # drops holders that hold none
