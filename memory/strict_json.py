"""JSON from outside, held to what PostgreSQL and every other reader can keep (reliability D10, RFC 7493).

Python accepts documents that `jsonb` refuses (U+0000, lone surrogates, 1e400), that mean different things to different
readers (repeated names) or that exhaust a stack (nesting). All of these are refused here, with the place.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memory.errors import MemoryAppError


class InvalidJson(MemoryAppError):
    """The document is not JSON we can keep; `pointer` (RFC 6901) is the place, "" where there is none."""

    code = "invalid_json"

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer})" if pointer else message)
        self.reason = message
        self.pointer = pointer


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How large a document may be.

    `nodes` counts members, items and the document itself. Tool calls are the densest thing agents record, measured at
    16–19 bytes a node, so 50,000 nodes let a full 1 MiB of any real trajectory through; 20,000 would not.
    """

    depth: int = 32
    nodes: int = 50_000
    string_bytes: int = 64 * 1024


DEFAULT_LIMITS = Limits()
_MAX_POINTER = 200


class _Repeated(dict[str, Any]):
    """An object in which a name occurs twice; the walk reports it, because only the walk knows the place."""


def parse_json(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read a document, or raise InvalidJson saying what is wrong and where."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise InvalidJson("Leave out the byte order mark at the start of the body.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"Encode the body as UTF-8: byte {error.start} is not.") from error
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=float)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg}: line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise InvalidJson(f"Nest at most {limits.depth} arrays and objects.") from error
    except ValueError as error:  # integers of thousands of digits
        raise InvalidJson("A number has too many digits.") from error
    check_json(document, limits=limits)
    return document


def check_json(document: Any, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise InvalidJson where a parsed document breaks the limits. Uses no stack of its own, however deep it is."""
    nodes = 1
    path: list[str | int] = []
    _check_scalar(document, path, limits)
    open_containers: list[Iterator[tuple[str | int, Any]]] = []
    if isinstance(document, dict | list):
        open_containers.append(_members(document, path))
    while open_containers:
        for name, value in open_containers[-1]:
            nodes += 1
            if nodes > limits.nodes:
                raise InvalidJson(f"Send at most {limits.nodes:,} values in one document.")
            if type(name) is str:
                _check_string(name, path, limits)
            path.append(name)
            if isinstance(value, dict | list):
                if len(open_containers) >= limits.depth:
                    raise InvalidJson(f"Nest at most {limits.depth} arrays and objects.", pointer=_pointer(path))
                open_containers.append(_members(value, path))
                break
            _check_scalar(value, path, limits)
            path.pop()
        else:
            open_containers.pop()
            if path:
                path.pop()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    return result if len(result) == len(pairs) else _Repeated(result)


def _members(value: dict[str, Any] | list[Any], path: list[str | int]) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, _Repeated):
        raise InvalidJson("Use every member name once in an object.", pointer=_pointer(path))
    return iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))


def _check_scalar(value: Any, path: list[str | int], limits: Limits) -> None:
    if type(value) is str:
        _check_string(value, path, limits)
    elif type(value) is float:
        if not math.isfinite(value):
            raise InvalidJson("Send finite numbers that fit a double.", pointer=_pointer(path))
    elif type(value) is int and not -(2**63) < value < 2**63:
        raise InvalidJson("Send integers below 2^63, or larger ones as text.", pointer=_pointer(path))


def _check_string(text: str, path: list[str | int], limits: Limits) -> None:
    if "\x00" in text:
        raise InvalidJson("Leave out the character U+0000.", pointer=_pointer(path))
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise InvalidJson("Leave out lone surrogates.", pointer=_pointer(path)) from error
    if size > limits.string_bytes:
        raise InvalidJson(f"Send texts of at most {limits.string_bytes:,} bytes.", pointer=_pointer(path))


def _pointer(path: list[str | int]) -> str:
    """Write a path as a JSON pointer, cut short where names are absurdly long."""
    pointer = "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in path)
    return pointer if len(pointer) <= _MAX_POINTER else f"{pointer[:_MAX_POINTER]}…"
