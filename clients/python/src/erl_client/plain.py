"""Any value of an agent as plain JSON, and texts no longer than ERL keeps."""

import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

MAX_DEPTH_LEVELS = 24
MAX_TEXT_CHARS = 60_000
MIN_TEXT_CHARS = 200
MAX_NAME_CHARS = 200
MAX_STEPS = 2_000
MAX_TOOLS = 500
MAX_BODY_BYTES = 900_000  # ERL takes 1 MiB


def as_plain(value: Any, *, depth: int = MAX_DEPTH_LEVELS) -> Any:
    """Return a value as plain JSON; messages and answers of SDKs and frameworks as they would be on the wire."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth == 0:
        return as_text(str(value))
    if hasattr(value, "model_dump") and not isinstance(value, type):
        value = value.model_dump(mode="json", exclude_none=True)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {as_text(str(name)): as_plain(item, depth=depth - 1) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return [as_plain(item, depth=depth - 1) for item in value]
    return as_text(str(value))


def as_text(value: str) -> str:
    """Return a text without what cannot be stored: NUL characters and halves of surrogate pairs."""
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON for the standard output; in escapes where that cannot take every character."""
    takes_all = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not takes_all, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode()  # halves of surrogate pairs


def show_hidden(text: str) -> str:
    """Return a text in which characters that change what a person sees, or cannot be seen, are spelled out."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else f"[U+{ord(character):04X}]"
        for character in text
    )


def cut(text: str, max_chars: int) -> str:
    """Return a text that is not too long: of a long one the first two thirds and the last third of what is kept.

    The mark between them gives the length and the SHA-256 of the whole.
    """
    if len(text) <= max_chars:
        return text
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    mark = f"\n[… cut: the whole has {len(text):,} characters, sha256 {digest} …]\n"
    tail = max_chars // 3
    return text[: max(0, max_chars - tail - len(mark))] + mark + text[-tail:]


def fit(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run that is small enough to record: long texts are cut, and of very many steps those in the middle."""
    max_chars, max_steps = MAX_TEXT_CHARS, MAX_STEPS
    while True:
        fitted = _fit(run, max_chars=max_chars, max_steps=max_steps)
        if len(json.dumps(fitted, ensure_ascii=False).encode()) <= MAX_BODY_BYTES or max_steps <= 2:
            return fitted
        if max_chars > MIN_TEXT_CHARS:
            max_chars = max(MIN_TEXT_CHARS, max_chars // 2)
        else:
            max_steps //= 2


def _fit(run: Mapping[str, Any], *, max_chars: int, max_steps: int) -> dict[str, Any]:
    names = ("task_id", "agent", "user_id", "model", "external_id")
    fitted = {
        name: value[:MAX_NAME_CHARS] if name in names else _cut_all(value, max_chars) for name, value in run.items()
    }
    if len(fitted.get("tools", ())) > MAX_TOOLS:
        fitted["tools"] = fitted["tools"][:MAX_TOOLS]
    steps = fitted.get("steps", [])
    if len(steps) > max_steps:
        head = max_steps * 2 // 3
        gap = {"observation": f"[… cut: {len(steps) - max_steps + 1:,} steps of {len(steps):,} left out here …]"}
        steps = [*steps[:head], gap, *steps[len(steps) - (max_steps - head - 1) :]]
        fitted["steps"] = [{**step, "index": number} for number, step in enumerate(steps, start=1)]
    return fitted


def _cut_all(value: Any, max_chars: int) -> Any:
    if isinstance(value, str):
        return cut(value, max_chars)
    if isinstance(value, Mapping):
        return {name: _cut_all(item, max_chars) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut_all(item, max_chars) for item in value]
    return value
