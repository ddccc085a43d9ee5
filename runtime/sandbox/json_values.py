"""Take values out of the sandbox as JSON, and no more of them than the limit.

The interpreter hands over shared objects as one object, so a value of a few hundred bytes can be a list of lists that
has 10^12 items when written out. So a value is walked with a budget, before anything else looks at it.
"""

import math
from typing import Any

MAX_DEPTH_LEVELS = 32
_MAX_INTEGER_BITS = 1024


class NotJson(ValueError):
    """A value cannot be written as JSON, or is too large."""


def to_json_value(value: Any, *, chars: int) -> Any:
    """Return a copy made of dicts, lists, texts, numbers, booleans and None.

    Args:
        chars: how much may come out, counted as the characters of its texts and 2 for each value.

    Raises:
        NotJson: the value holds something else, or too much.
    """
    return _Walk(chars).copy(value, 0)


class _Walk:
    def __init__(self, chars: int) -> None:
        self._limit = chars
        self._left = chars

    def copy(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH_LEVELS:
            raise NotJson(f"the value is nested more than {MAX_DEPTH_LEVELS} levels deep")
        self._spend(2)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            if value.bit_length() > _MAX_INTEGER_BITS:
                raise NotJson("an integer is too large")
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise NotJson("a number is infinite or not a number, which JSON cannot hold")
            return value
        if isinstance(value, list | tuple):
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._key(key): self.copy(item, depth + 1) for key, item in value.items()}
        raise NotJson(
            f"the value holds a {_name(value)}; return text, numbers, booleans, None, and lists and dicts of them"
        )

    def _key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise NotJson(f"a dict has a {_name(key)} as a key; keys are texts")
        return self._text(key)

    def _text(self, text: str) -> str:
        self._spend(len(text))
        if "\x00" in text:
            raise NotJson("a text holds the character U+0000")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotJson("a text holds half of a surrogate pair") from None
        return text

    def _spend(self, chars: int) -> None:
        self._left -= chars
        if self._left < 0:
            raise NotJson(f"the value is larger than {self._limit:,} characters")


def _name(value: Any) -> str:
    return str(getattr(value, "name", "") or type(value).__name__)[:100]
