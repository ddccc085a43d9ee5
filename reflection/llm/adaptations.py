"""What models refused, and how a request is changed so that they take it.

Servers and models differ in the parameters that they know, and change them. What a model refuses by name is left out
from then on, in this process, and `manage.py smoke_llm` says what was left out.
"""

import hashlib
import re
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from reflection.llm.failures import MAX_WORDS, read_overflow

# Without these a request would no longer say the same.
NEEDED = frozenset({"model", "messages", "input", "contents", "system", "systemInstruction", "tools", "stream"})
LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
# Words by which servers refuse a member without its name
ALIASES = {
    "response_format": ("json_schema", "json schema", "structured", "grammar", "guided"),
    "output_config": ("output_format", "json_schema", "json schema", "structured"),
    "text": ("text.format", "json_schema", "json schema", "structured"),
    "stream_options": ("include_usage",),
    "reasoning": ("reasoning.",),
    "thinking": ("thinking.",),
}
_NAME = re.compile(r"\w+")
_TOO_LARGE = re.compile(r"(?:at most|maximum|less than or equal to|<=?|>)[^0-9]{0,60}([0-9]{3,7})")
_NO_SYSTEM = re.compile(r"system role (?:is )?not supported|(?:role|roles?) ['\"]?system['\"]? (?:is|are) not", re.I)
_NO_TOOLS_WITH_EFFORT = re.compile(
    r"tools?\b[^.]{0,60}\breasoning[_ ]effort|reasoning[_ ]effort[^.]{0,80}\btools?\b", re.I
)
_SHORT_IDS = re.compile(r"tool[ _]call ids?\b.{0,200}\blength(?: of)? 9\b", re.I | re.S)
_UNKNOWN = re.compile("unsupported|not supported|unknown|unrecognized|extra", re.I)
SHORT_ID_CHARACTERS = 9


# One change to a request, with the words that `smoke_llm` shows
Change = tuple[str, Callable[[dict[str, Any]], None]]


class Adaptations:
    """The changes that were learnt, by model."""

    def __init__(self) -> None:
        self._changes: dict[str, list[Change]] = {}

    def names(self, model: str) -> list[str]:
        """Return what is left out of or changed in requests to a model."""
        return [name for key, changes in self._changes.items() if model in key for name, _ in changes]

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return a request as the model takes it; the one given stays as it is."""
        changes = self._changes.get(_key(path, body))
        if not changes:
            return body
        # A copy: the body that was given is adapted again after the next refusal.
        changed = deepcopy(body)
        for _, make in changes:
            make(changed)
        return changed

    def learn(self, path: str, body: dict[str, Any], words: str) -> bool:
        """Find the change that a refusal asks for and remember it; False where there is none."""
        words = words[:MAX_WORDS]
        changes = self._changes.setdefault(_key(path, body), [])
        names = {name for name, _ in changes}
        new = [change for change in _find_changes(body, words) if change[0] not in names]
        # One change at a time: a refusal may name several members, and leaving out one may be enough.
        changes += new[:1]
        return bool(new)


def _key(path: str, body: dict[str, Any]) -> str:
    # Google's API has the model in the path.
    return str(body.get("model") or path)


def _find_changes(body: dict[str, Any], words: str) -> list[Change]:
    # No parameter is refused here: the conversation has to be shortened.
    if read_overflow(words) is not None:
        return []
    if body.get("tools") and body.get("reasoning_effort") != "none" and _NO_TOOLS_WITH_EFFORT.search(words):
        return [("reasoning_effort: none", partial(_set, name="reasoning_effort", value="none"))]
    if _NO_SYSTEM.search(words) and body.get("messages"):
        return [("system as user", _merge_system)]
    if _SHORT_IDS.search(words):
        return [("ids of calls with nine characters", _shorten_ids)]
    return [*_limit_changes(body, words), *_dropped(body, words)]


def _limit_changes(body: dict[str, Any], words: str) -> list[Change]:
    """Return the other name of the limit, or a lower one."""
    names = set(_NAME.findall(words))
    for field, other in (LIMITS[:2], LIMITS[1::-1]):
        if field in body and field in names and (_UNKNOWN.search(words) or other in names):
            return [(f"{other} for {field}", partial(_rename, old=field, new=other))]
    numbers = [int(number) for number in _TOO_LARGE.findall(words)] if names & {*LIMITS, "maxOutputTokens"} else []
    if numbers:
        most = min(numbers)
        return [(f"at most {most:,} tokens of output", partial(_lower, most=most))]
    return []


def _set(body: dict[str, Any], *, name: str, value: Any) -> None:
    body[name] = value


def _rename(body: dict[str, Any], *, old: str, new: str) -> None:
    if old in body:
        body[new] = body.pop(old)


def _lower(body: dict[str, Any], *, most: int) -> None:
    for part, fields in ((body, LIMITS), (body.get("generationConfig") or {}, ("maxOutputTokens",))):
        for field in fields:
            if isinstance(part.get(field), int):
                part[field] = min(part[field], most)


def _dropped(body: dict[str, Any], words: str) -> list[Change]:
    """Return the members that the refusal names, each as a change that leaves it out."""
    names, lower = set(_NAME.findall(words)), words.lower()
    places = {"": body, "generationConfig": body.get("generationConfig") or {}}
    changes: list[Change] = []
    for location, members in places.items():
        for name in members:
            is_named = name in names or any(alias in lower for alias in ALIASES.get(name, ()))
            if is_named and name not in NEEDED and name not in LIMITS:
                changes.append((f"without {name}", partial(_drop, place=location, name=name)))
    return changes


def _drop(body: dict[str, Any], *, place: str, name: str) -> None:
    (body.get(place, {}) if place else body).pop(name, None)


def _shorten_ids(body: dict[str, Any]) -> None:
    """Give calls, perhaps of another model, ids of nine letters and digits, as Mistral's models have them."""
    for message in body.get("messages") or []:
        for call in message.get("tool_calls") or []:
            call["id"] = _short_id(call["id"])
        if message.get("tool_call_id"):
            message["tool_call_id"] = _short_id(message["tool_call_id"])


def _short_id(id: str) -> str:
    # The same id always has the same short one, so calls and their results still match.
    is_short = len(id) == SHORT_ID_CHARACTERS and id.isascii() and id.isalnum()
    return id if is_short else hashlib.sha256(id.encode()).hexdigest()[:SHORT_ID_CHARACTERS]


def _merge_system(body: dict[str, Any]) -> None:
    """Put what the system says before the first words of the user."""
    messages = body.get("messages") or []
    system = [message["content"] for message in messages if message.get("role") == "system"]
    rest = [message for message in messages if message.get("role") != "system"]
    for message in rest:
        if message.get("role") == "user" and isinstance(message.get("content"), str):
            message["content"] = "\n\n".join([*system, message["content"]])
            body["messages"] = rest
            return
