"""Read JSON from outside, and refuse what PostgreSQL or another reader cannot keep (reliability D10, RFC 7493).

Python accepts documents that `jsonb` refuses (U+0000, lone surrogates, 1e400), that mean different things to different
readers (repeated names) or that exhaust a stack (nesting). These are refused here, with the place.
"""

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from memory.errors import MemoryAppError
from memory.limits import REQUEST_JSON, JsonLimits

_MAX_POINTER_CHARS = 200


class InvalidJson(MemoryAppError):
    """The document is not JSON we can keep; `pointer` (RFC 6901) is the place, "" where there is none."""

    code = "invalid_json"

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer})" if pointer else message)
        self.reason = message
        self.pointer = pointer


class _Repeated(dict[str, Any]):
    """An object in which a name occurs twice. `check_json` reports it, because only it knows the place."""


def parse_json(data: bytes, *, limits: JsonLimits = REQUEST_JSON) -> Any:
    """Read a document, or raise InvalidJson saying what is wrong and where."""
    document = load_json(data, limits=limits)
    check_json(document, limits=limits)
    return document


def load_json(data: bytes, *, limits: JsonLimits = REQUEST_JSON, parse_int: Callable[[str], Any] | None = None) -> Any:
    """Read a document without checking what is in it. Raises InvalidJson."""
    # `json` refuses it too, but its message advises another codec of Python.
    if data.startswith(b"\xef\xbb\xbf"):
        raise InvalidJson("Leave out the byte order mark at the start of the body.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"Encode the body as UTF-8: byte {error.start} is not.") from error
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=float, parse_int=parse_int)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg}: line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise InvalidJson(f"Nest at most {limits.depth_levels} arrays and objects.") from error
    except ValueError as error:  # integers of thousands of digits
        raise InvalidJson("A number has too many digits.") from error
    return document


def check_json(document: Any, *, limits: JsonLimits = REQUEST_JSON) -> None:
    """Raise InvalidJson where a parsed document breaks the limits. Uses no stack of its own, however deep it is."""
    values = 0
    pending: list[tuple[Any, tuple[Any, ...], int]] = [([document], (), 0)]  # container, path as (path, name), depth
    while pending:
        container, path, depth = pending.pop()
        is_object = isinstance(container, dict)
        values += len(container)
        if values > limits.values:
            raise InvalidJson(f"Send at most {limits.values:,} values in one document.")
        if isinstance(container, _Repeated):
            raise InvalidJson("Use every member name once in an object.", pointer=_pointer(path))
        members: Iterable[tuple[Any, Any]] = container.items() if is_object else enumerate(container)
        for name, value in members:
            if is_object and (fault := _find_text_fault(name, limits)):
                raise InvalidJson(fault, pointer=_pointer(path))
            kind, fault = type(value), ""
            if kind is str:
                fault = _find_text_fault(value, limits)
            elif isinstance(value, dict | list):
                pending.append((value, (path, name), depth + 1))
                if depth >= limits.depth_levels:
                    fault = f"Nest at most {limits.depth_levels} arrays and objects."
            elif kind is float and not math.isfinite(value):
                fault = "Send finite numbers that fit a double."
            # Other readers keep an integer in 64 bits, or round it.
            elif kind is int and not -(2**63) < value < 2**63:
                fault = "Send integers below 2^63, or larger ones as text."
            if fault:
                raise InvalidJson(fault, pointer=_pointer((path, name)))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of repeated names Python keeps the last, and other readers the first.
    result = dict(pairs)
    return result if len(result) == len(pairs) else _Repeated(result)


def _find_text_fault(text: str, limits: JsonLimits) -> str:
    if len(text) > limits.text_chars:
        return f"Send texts of at most {limits.text_chars:,} characters."
    if "\x00" in text:
        return "Leave out the character U+0000."
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "Leave out lone surrogates."
    return ""


def _pointer(path: tuple[Any, ...]) -> str:
    """Write a path as a JSON pointer, cut short where names are absurdly long."""
    names: list[str] = []
    while path:
        path, name = path
        names.append(str(name))
    pointer = "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in reversed(names[:-1]))
    return pointer if len(pointer) <= _MAX_POINTER_CHARS else f"{pointer[:_MAX_POINTER_CHARS]}…"
