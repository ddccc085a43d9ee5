"""Which request gets a thread next: keys take turns, and none gets every thread."""

import time
from asyncio import Future
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True, slots=True, eq=False)
class Turn:
    """A whole request on its way through this process."""

    scope: dict[str, Any]
    body: bytes
    credential: bytes
    answer: "Future[Any]"
    arrived_at: float = field(default_factory=time.monotonic)
    has_thread: bool = field(default=False, init=False)


def read_credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return what Authorization says after its scheme, b"" if there is none.

    Read as the API reads it, so that other spaces or letters of the scheme make no other client of one key.
    """
    value = next((value for name, value in headers if name == b"authorization"), b"")
    return value.decode("latin-1").strip().partition(" ")[2].strip().encode("latin-1")


class Turns:
    """Gives threads to requests. Used by the event loop's thread alone.

    Requests of one credential are served in order, and credentials take turns. One credential has at most all threads
    but one, so that its slow requests leave a thread to the others, and at most `most_in_flight` requests waiting or
    served. Requests without a credential count as those of one, without the second limit.
    """

    def __init__(self, *, threads: int, most_in_flight: int, start: Callable[[Turn], None]) -> None:
        self._threads = threads
        self._share = max(1, threads - 1)
        self._most_in_flight = most_in_flight
        self._start = start
        self._waiting: OrderedDict[bytes, deque[Turn]] = OrderedDict()
        self._in_flight: Counter[bytes] = Counter()
        self._served: Counter[bytes] = Counter()
        self._busy = 0

    def add(self, turn: Turn) -> bool:
        """Start a request as soon as there is a thread for it; return False if its key has too many in flight."""
        key = turn.credential
        if key and 0 < self._most_in_flight <= self._in_flight[key]:
            return False
        self._in_flight[key] += 1
        self._waiting.setdefault(key, deque()).append(turn)
        self._start_next()
        return True

    def step_aside(self, turn: Turn) -> None:
        """Give the thread of a request that only waits to the next one."""
        if turn.has_thread:
            turn.has_thread = False
            self._busy -= 1
            _take_one(self._served, turn.credential)
            self._start_next()

    def finish(self, turn: Turn) -> None:
        """Note that a request was answered."""
        _take_one(self._in_flight, turn.credential)
        if turn.has_thread:
            self.step_aside(turn)

    def count_waiting(self) -> int:
        """Return how many requests have no thread yet. Any thread may ask."""
        return sum(len(queue) for queue in tuple(self._waiting.values()))

    def _start_next(self) -> None:
        while self._busy < self._threads and (turn := self._find_next()) is not None:
            turn.has_thread = True
            self._busy += 1
            self._served[turn.credential] += 1
            self._start(turn)

    def _find_next(self) -> Turn | None:
        for key, queue in self._waiting.items():
            if self._served[key] < self._share:
                turn = queue.popleft()
                if queue:
                    self._waiting.move_to_end(key)
                else:
                    del self._waiting[key]
                return turn
        return None


def _take_one(counts: Counter[bytes], key: bytes) -> None:
    """Count one less, and keep no key that has none: clients may send any number of them."""
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
