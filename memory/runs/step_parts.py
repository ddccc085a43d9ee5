"""The parts of a stored step, checked: what PostgreSQL cannot hold and what is too large stays out."""

import json
from collections.abc import Mapping
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_ARGUMENTS_CHARS, MAX_NAME_CHARS, MAX_TEXT_CHARS
from memory.strict_json import InvalidJson, check_json, parse_json

Json = Any
"""A value as `json.loads` returns it."""


def make_step(
    *, index: int, thought: str = "", action: dict[str, Any] | None = None, observation: str = "", error: str = ""
) -> dict[str, Any]:
    """Return a step in normal form."""
    return {"index": index, "thought": thought, "action": action, "observation": observation, "error": error}


def read_text(value: Json, *, where: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the text, "" for null; raise InvalidSteps for anything that is not a text or cannot be stored."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidSteps(f"{where} must be a string.")
    if len(value) > max_chars:
        raise InvalidSteps(f"{where} is {len(value):,} characters long. Send at most {max_chars:,}.")
    if "\x00" in value:
        raise InvalidSteps(f"{where} holds a NUL character, which cannot be stored. Remove it.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidSteps(f"{where} holds half of a surrogate pair, which is not text. Remove it.") from None
    return value


def read_name(value: Json, *, where: str) -> str:
    """Return a tool's name."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidSteps(f"{where} must be the tool's name, a string that is not empty.")
    return read_text(value, where=where, max_chars=MAX_NAME_CHARS).strip()


def read_arguments(value: Json, *, where: str) -> dict[str, Any]:
    """Return the arguments of a call as an object; a JSON string is read first, as in OpenAI's tool calls.

    Models also write texts that hold no object; such a text is kept whole under `input`.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        text = read_text(value, where=where)
        if not text.strip():
            return {}
        try:
            value = parse_json(text.encode())
        except InvalidJson:
            value = None
        return value if isinstance(value, dict) else {"input": text}
    if not isinstance(value, Mapping):
        raise InvalidSteps(f"{where} must be an object, or a string holding one.")
    try:
        check_json(value)
    except InvalidJson as error:
        raise InvalidSteps(f"{where} cannot be stored. {error}") from None
    length = len(json.dumps(value, ensure_ascii=False))
    if length > MAX_ARGUMENTS_CHARS:
        raise InvalidSteps(f"{where} is {length:,} characters long. Send at most {MAX_ARGUMENTS_CHARS:,}.")
    return dict(value)
