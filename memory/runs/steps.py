"""Bring the steps of a run into the one form we store, whatever form the agent's framework writes them in."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_STEPS
from memory.runs.chat_messages import steps_from_messages
from memory.runs.step_parts import Json, make_step, read_arguments, read_name, read_text

STEP_MEMBERS = ("index", "thought", "action", "observation", "error")
ACTION_MEMBERS = ("name", "arguments")

_CALL = re.compile(r"([^\s()\[\]{}]+)\((.*)\)", re.DOTALL)
_BRACKETS = re.compile(r"([^\s()\[\]{}]+)\[(.*)\]", re.DOTALL)


def normalise_steps(raw: Json) -> list[dict[str, Any]]:
    """Return the steps of a run in normal form.

    Reads our own form (a list of {"thought", "action", "observation", "error"}, the action an object with `name` and
    `arguments` or a string such as `search[red shoes]`, `get_user({"id": 1})` or `go to desk 1`), a list of OpenAI
    chat messages, and an object whose only member `messages` is such a list. A form that was normalised before comes
    back unchanged.

    Raises InvalidSteps, naming the place, when the value is in none of these forms or is larger than we keep.
    """
    where = "steps"
    if isinstance(raw, Mapping) and set(raw) == {"messages"}:
        raw, where = raw["messages"], "steps.messages"
        if not isinstance(raw, list):
            raise InvalidSteps(f"{where} must be a list of chat messages, not {_kind(raw)}.")
        return steps_from_messages(raw, where=where)
    if raw is None:
        return []
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        raise InvalidSteps(f"{where} must be a list of steps or of chat messages, not {_kind(raw)}.")
    if len(raw) > MAX_STEPS:
        raise InvalidSteps(f"{where} has {len(raw)} entries; at most {MAX_STEPS} are kept. Split the run.")
    if raw and isinstance(raw[0], Mapping) and "role" in raw[0]:
        return steps_from_messages(raw, where=where)
    return [_step(item, number=i, where=f"{where}[{i - 1}]") for i, item in enumerate(raw, start=1)]


def parse_action(text: str, *, where: str = "action") -> dict[str, Any] | None:
    """Return the action a string stands for, or None for a blank one.

    `name({...})` gives its JSON object as the arguments; in `name[rest]`, `name(rest)` and `name rest` the rest
    becomes the argument `input`.
    """
    text = read_text(text, where=where).strip()
    if not text:
        return None
    if match := _CALL.fullmatch(text) or _BRACKETS.fullmatch(text):
        name, rest = match[1], match[2]
        arguments: Json = rest if text.endswith(")") else {"input": rest}
    else:
        name, _, rest = text.partition(" ")
        arguments = {"input": rest.strip()} if rest.strip() else {}
    return {
        "name": read_name(name, where=f"{where}.name"),
        "arguments": read_arguments(arguments, where=f"{where}.arguments"),
    }


def _step(item: Json, *, number: int, where: str) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise InvalidSteps(f"{where} must be an object with thought, action and observation, not {_kind(item)}.")
    _refuse_unknown(item, STEP_MEMBERS, where)
    index = item.get("index", number)
    if index != number or not isinstance(index, int) or isinstance(index, bool):
        raise InvalidSteps(f"{where}.index must be {number} (steps count from 1 in order) or be left out.")
    return make_step(
        index=number,
        thought=read_text(item.get("thought"), where=f"{where}.thought"),
        action=_action(item.get("action"), where=f"{where}.action"),
        observation=read_text(item.get("observation"), where=f"{where}.observation"),
        error=read_text(item.get("error"), where=f"{where}.error"),
    )


def _action(value: Json, *, where: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_action(value, where=where)
    if not isinstance(value, Mapping):
        raise InvalidSteps(f"{where} must be an object with name and arguments, a string or null, not {_kind(value)}.")
    _refuse_unknown(value, ACTION_MEMBERS, where)
    return {
        "name": read_name(value.get("name"), where=f"{where}.name"),
        "arguments": read_arguments(value.get("arguments"), where=f"{where}.arguments"),
    }


def _refuse_unknown(value: Mapping[str, Json], known: Sequence[str], where: str) -> None:
    for member in value:
        if member not in known:
            raise InvalidSteps(f"{where} has an unknown member {str(member)[:80]!r}; known are {', '.join(known)}.")


def _kind(value: Json) -> str:
    return {"NoneType": "null", "dict": "an object", "str": "a string", "list": "a list", "bool": "a boolean"}.get(
        type(value).__name__, "a number"
    )
