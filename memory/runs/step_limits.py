"""The parts of a stored step: their limits, and the checks that keep what PostgreSQL cannot hold out of it."""

import json
import math
from collections.abc import Mapping
from typing import Any

from memory.errors import InvalidSteps

Json = Any
"""A value as `json.loads` returns it."""

MAX_STEPS = 2_000
MAX_TEXT_CHARS = 200_000
MAX_NAME_CHARS = 200
MAX_ARGUMENTS_CHARS = 200_000
MAX_ARGUMENTS_DEPTH = 50


def make_step(
    *, index: int, thought: str = "", action: dict[str, Any] | None = None, observation: str = "", error: str = ""
) -> dict[str, Any]:
    """Return a step in normal form."""
    return {"index": index, "thought": thought, "action": action, "observation": observation, "error": error}


def text_value(value: Json, *, where: str) -> str:
    """Return the text, "" for null; raise InvalidSteps for anything that is no text or cannot be stored."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidSteps(f"{where} must be a string.")
    if len(value) > MAX_TEXT_CHARS:
        raise InvalidSteps(f"{where} is {len(value)} characters long; at most {MAX_TEXT_CHARS} are kept. Shorten it.")
    _refuse_unstorable(value, where=where)
    return value


def name_value(value: Json, *, where: str) -> str:
    """Return a tool's name."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidSteps(f"{where} must be the tool's name, a string that is not empty.")
    if len(value) > MAX_NAME_CHARS:
        raise InvalidSteps(f"{where} is {len(value)} characters long; at most {MAX_NAME_CHARS} are kept.")
    _refuse_unstorable(value, where=where)
    return value.strip()


def arguments_value(value: Json, *, where: str) -> dict[str, Any]:
    """Return the arguments of a call as an object; a JSON string is read first, as in OpenAI's tool calls."""
    if value is None:
        return {}
    if isinstance(value, str):
        value = parsed_arguments(value)
    if not isinstance(value, Mapping):
        raise InvalidSteps(f"{where} must be an object, or a string holding one.")
    _refuse_unstorable_json(value, where=where, depth=0)
    length = len(json.dumps(value, ensure_ascii=False))
    if length > MAX_ARGUMENTS_CHARS:
        raise InvalidSteps(f"{where} is {length} characters long; at most {MAX_ARGUMENTS_CHARS} are kept.")
    return dict(value)


def parsed_arguments(text: str) -> dict[str, Any]:
    """Return the object in `text`; a text that holds none, as models do write, is kept whole under `input`."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"input": text}
    return value if isinstance(value, dict) else {"input": text}


def _refuse_unstorable(value: str, *, where: str) -> None:
    if "\x00" in value:
        raise InvalidSteps(f"{where} holds a NUL character, which cannot be stored. Remove it.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidSteps(f"{where} holds half of a surrogate pair, which is not text. Remove it.") from None


def _refuse_unstorable_json(value: Json, *, where: str, depth: int) -> None:
    if depth > MAX_ARGUMENTS_DEPTH:
        raise InvalidSteps(f"{where} is nested deeper than {MAX_ARGUMENTS_DEPTH} levels.")
    match value:
        case str():
            _refuse_unstorable(value, where=where)
        case float() if not math.isfinite(value):
            raise InvalidSteps(f"{where} holds a number that JSON does not know (NaN or infinity).")
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InvalidSteps(f"{where} has a member whose name is not a string.")
                _refuse_unstorable(key, where=where)
                _refuse_unstorable_json(item, where=where, depth=depth + 1)
        case list() | tuple():
            for item in value:
                _refuse_unstorable_json(item, where=where, depth=depth + 1)
        case None | bool() | int() | float():
            pass
        case _:
            raise InvalidSteps(f"{where} holds a {type(value).__name__}, which is no JSON value.")
