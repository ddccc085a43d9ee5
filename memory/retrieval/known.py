"""What was found for the tasks asked lately, as long as nothing has changed."""

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

KNOWN_TASKS = 128  # of 100 kB each


class Known(Generic[Value]):
    """The most recently used values by key; threads may share it. A key names everything its value depends on."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._values: OrderedDict[Any, Value] = OrderedDict()

    def find(self, key: Any) -> Value | None:
        """Return the value of a key if it is known."""
        with self._lock:
            if (value := self._values.get(key)) is not None:
                self._values.move_to_end(key)
            return value

    def keep(self, key: Any, value: Value) -> None:
        """Remember a value, and forget the one that was not asked for the longest."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()


def digest(text: str) -> bytes:
    """Return a short name of a text, which may be long."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
