"""A stored step: its parts, checked, and our own form of it.

What PostgreSQL cannot hold stays out. Of a long observation the beginning and the end are kept.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_ARGUMENTS_CHARS, MAX_NAME_CHARS, MAX_OBSERVATION_CHARS, MAX_TEXT_CHARS
from memory.strict_json import InvalidJson, check_json, parse_json

Json = Any
"""A value as `json.loads` returns it."""

STEP_MEMBERS = ("index", "thought", "action", "observation", "error", "metadata")
# What agents log with a step besides: kept in its metadata.
EXTRA_MEMBERS = ("id", "timestamp", "started_at", "ended_at", "duration_ms", "model", "tokens", "usage", "cost_usd")
ACTION_MEMBERS = ("name", "arguments")

_CALL = re.compile(r"([^\s()\[\]{}]+)\((.*)\)", re.DOTALL)
_BRACKETS = re.compile(r"([^\s()\[\]{}]+)\[(.*)\]", re.DOTALL)


def make_step(
    *, index: int, thought: str = "", action: dict[str, Any] | None = None, observation: str = "", error: str = ""
) -> dict[str, Any]:
    """Return a step in normal form."""
    return {"index": index, "thought": thought, "action": action, "observation": observation, "error": error}


def read_text(value: Json, *, where: str, max_chars: int | None = MAX_TEXT_CHARS) -> str:
    """Return the text, "" for null; raise InvalidSteps for anything that is not a text or cannot be stored."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidSteps(f"{where} must be a string.")
    if max_chars is not None and len(value) > max_chars:
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
    # As they are stored; escapes would count a letter as six.
    length = len(json.dumps(value, ensure_ascii=False))
    if length > MAX_ARGUMENTS_CHARS:
        raise InvalidSteps(f"{where} is {length:,} characters long. Send at most {MAX_ARGUMENTS_CHARS:,}.")
    return dict(value)


def parse_action(text: str, *, where: str = "action") -> dict[str, Any] | None:
    """Return the action that a string means, or None for a blank one.

    `name({...})` gives its JSON object as the arguments; in `name[rest]`, `name(rest)` and `name rest` the rest
    becomes the argument `input`.
    """
    text = read_text(text, where=where).strip()
    if not text:
        return None
    if match := _CALL.fullmatch(text) or _BRACKETS.fullmatch(text):
        name, rest = match[1], match[2]
        # JSON is tried in parentheses alone; in brackets the text is the argument.
        arguments: Json = rest if text.endswith(")") else {"input": rest}
    else:
        name, _, rest = text.partition(" ")
        arguments = {"input": rest.strip()} if rest.strip() else {}
    return {
        "name": read_name(name, where=f"{where}.name"),
        "arguments": read_arguments(arguments, where=f"{where}.arguments"),
    }


def read_step(item: Json, *, number: int, where: str) -> dict[str, Any]:
    """Return a step of our own form in normal form; raise InvalidSteps for anything else.

    `is_error` says that the observation is an error. Extra members are kept in `metadata`.
    """
    if not isinstance(item, Mapping):
        raise InvalidSteps(f"{where} must be an object with thought, action and observation, not {kind_of(item)}.")
    _refuse_unknown(item, (*STEP_MEMBERS, "is_error", *EXTRA_MEMBERS), where)
    index = item.get("index", number)
    if index != number or not isinstance(index, int) or isinstance(index, bool):
        raise InvalidSteps(f"{where}.index must be {number} (steps count from 1 in order) or be left out.")
    observation = read_long_text(item.get("observation"), where=f"{where}.observation")
    error = read_long_text(item.get("error"), where=f"{where}.error")
    # Some frameworks put the error where the observation belongs, and mark it.
    if item.get("is_error") is True and not error:
        observation, error = "", observation or "failed"
    step = make_step(
        index=number,
        thought=read_text(item.get("thought"), where=f"{where}.thought"),
        action=_action(item.get("action"), where=f"{where}.action"),
        observation=observation,
        error=error,
    )
    metadata = read_arguments(item.get("metadata"), where=f"{where}.metadata")
    metadata |= {name: item[name] for name in EXTRA_MEMBERS if item.get(name) is not None}
    return {**step, "metadata": metadata} if metadata else step


def read_long_text(value: Json, *, where: str) -> str:
    """Return a text of any length; of a long one the first two thirds and the last third of what we keep.

    The mark between them gives the length and the SHA-256 of the whole.
    """
    text = read_text(value, where=where, max_chars=None)
    if len(text) <= MAX_OBSERVATION_CHARS:
        return text
    # So that two cut texts can be told apart, or known to be the same.
    digest = sha256(text.encode()).hexdigest()[:16]
    mark = f"\n[… cut: the whole has {len(text):,} characters, sha256 {digest} …]\n"
    tail = MAX_OBSERVATION_CHARS // 3
    return text[: MAX_OBSERVATION_CHARS - tail - len(mark)] + mark + text[-tail:]


def _action(value: Json, *, where: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_action(value, where=where)
    if not isinstance(value, Mapping):
        raise InvalidSteps(
            f"{where} must be an object with name and arguments, a string or null, not {kind_of(value)}."
        )
    _refuse_unknown(value, ACTION_MEMBERS, where)
    return {
        "name": read_name(value.get("name"), where=f"{where}.name"),
        "arguments": read_arguments(value.get("arguments"), where=f"{where}.arguments"),
    }


def _refuse_unknown(value: Mapping[str, Json], known: Sequence[str], where: str) -> None:
    for member in value:
        if member not in known:
            raise InvalidSteps(f"{where} has an unknown member {str(member)[:80]!r}; known are {', '.join(known)}.")


def kind_of(value: Json) -> str:
    """Name the kind of a JSON value, for messages."""
    return {"NoneType": "null", "dict": "an object", "str": "a string", "list": "a list", "bool": "a boolean"}.get(
        type(value).__name__, "a number"
    )
