"""Remove secrets and personal data from JSON values before they are stored, sent or logged (reliability D7).

A secret becomes `[REDACTED:kind:hmac8]`: its kind and eight hexadecimal digits of a keyed hash. Equal secrets get equal
placeholders, but without the key a guess cannot be tested. Redacting twice changes nothing.
"""

import hmac
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from typing import Any

from django.conf import settings

from memory.redaction.search import find_secrets
from memory.redaction.spans import SEPARATOR, SecretSpan
from memory.redaction.values import INNER_MEMBERS, VALUE_MEMBERS, Said, find_named_kind, is_secret, read_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Redacted:
    """A value without secrets, and how many of each kind were removed."""

    value: Any
    counts: dict[str, int] = field(default_factory=dict)


# A container, the number of its parent, and its index or key there
_Container = tuple[Any, int, Any]
# Where a text is: the number of its container, its index or key there, and whether it is the key itself
_Location = tuple[int, Any, bool]


@dataclass(kw_only=True, slots=True)
class _Contents:
    """The containers of a value, starting with a list of the value itself, and the texts in them."""

    containers: list[_Container] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    locations: list[_Location] = field(default_factory=list)
    named: list[tuple[str, _Location, str]] = field(default_factory=list)  # secrets by their names, with the kind


def redact(value: Any) -> Redacted:
    """Return a JSON value without secrets and personal data in its values and keys, and what was found.

    The argument is not changed; the result shares its unchanged parts. Members named password, secret, token and so on
    lose their value whatever it looks like. Takes time linear in the size of the value.
    """
    contents = _read(value)
    counts = Counter(kind for _, _, kind in contents.named)
    changed = {location: placeholder(kind, text) for text, location, kind in contents.named}
    for number, new in _redact_texts(contents.texts, counts).items():
        changed[contents.locations[number]] = new
    if not changed:
        return Redacted(value=value)
    return Redacted(value=_rebuild(contents.containers, changed), counts=dict(sorted(counts.items())))


def redact_text(text: str) -> str:
    """Return `text` without secrets and personal data."""
    redacted: str = redact(text).value
    return redacted


def _read(value: Any) -> _Contents:
    """List all containers and texts of a value, with a stack instead of recursion."""
    contents = _Contents()
    stack: list[tuple[Any, int, Any, str]] = [([value], 0, 0, "")]
    while stack:
        item, parent, slot, member = stack.pop()
        number = len(contents.containers)
        contents.containers.append((item, parent, slot))
        is_object = isinstance(item, dict)
        object_kind = find_named_kind(item) if is_object else ""
        children: Iterable[tuple[Any, Any]] = item.items() if is_object else enumerate(item)
        before = ""  # the kind that an element of a list gives the next: ["--password", …]
        for location, child in children:
            kind, standing = member, Said.MEMBER
            if is_object:
                kind, plain = read_name(location) if isinstance(location, str) else ("", True)
                if not plain:
                    contents.texts.append(location)
                    contents.locations.append((number, location, True))
                if not kind and location in INNER_MEMBERS:
                    kind = member or (object_kind if location in VALUE_MEMBERS else "")
            if isinstance(child, dict | list | tuple):
                stack.append((child, number, location, kind))
                continue
            if isinstance(child, str):
                text = child
                if not is_object and not member:
                    kind, standing = before, Said.NEAR
                    before = read_name(child)[0] if child.startswith("-") or len(item) == 2 else ""
            elif isinstance(child, int) and not isinstance(child, bool) and (kind or child >= 10**12):
                text = str(child)
            else:
                continue
            if kind and is_secret(text, kind=kind, said=standing):
                contents.named.append((text, (number, location, False), kind))
            else:
                contents.texts.append(text)
                contents.locations.append((number, location, False))
    return contents


def _rebuild(containers: list[_Container], changed: dict[_Location, str]) -> Any:
    """Return the value with the new texts, copying only the containers that change and their parents."""
    touched: set[int] = set()
    for number, _, _ in changed:
        while number not in touched:
            touched.add(number)
            number = containers[number][1]
    copies: dict[int, Any] = {}
    for number in sorted(touched):  # parents come before children
        item, parent, slot = containers[number]
        copies[number] = dict(item) if isinstance(item, dict) else list(item)
        if number:
            copies[parent][slot] = copies[number]
    renamed: dict[int, dict[Any, str]] = {}
    for (number, slot, is_key), new in changed.items():
        if is_key:
            renamed.setdefault(number, {})[slot] = new
        else:
            copies[number][slot] = new
    for number, names in renamed.items():
        items = [(names.get(key, key), item) for key, item in copies[number].items()]
        # Filled again as a whole: a new key at its old position keeps the order of the members.
        copies[number].clear()
        copies[number].update(items)
    return copies[0][0]


def _redact_texts(texts: list[str], counts: Counter[str]) -> dict[int, str]:
    """Redact all texts in one search; return the changed ones by index."""
    blob = SEPARATOR.join(texts)
    # One search over all texts, since each search has a cost of its own for every rule.
    spans = find_secrets(blob)
    if not spans:
        return {}
    starts = [0, *accumulate(len(text) + 1 for text in texts)][: len(texts)]
    by_text: dict[int, list[SecretSpan]] = {}
    for span in spans:
        by_text.setdefault(bisect_right(starts, span.start) - 1, []).append(span)
    changed = {}
    for index, parts in by_text.items():
        text, offset, done, pieces = texts[index], starts[index], 0, []
        for start, end, kind, _ in parts:
            pieces += [text[done : start - offset], placeholder(kind, blob[start:end])]
            done = min(end - offset, len(text))
            counts[kind] += 1
        changed[index] = "".join([*pieces, text[done:]])
    return changed


# ── Placeholders ──────────────────────────────────────────────────────────────────────────────────────────────────
def placeholder(kind: str, secret: str) -> str:
    """Return the placeholder for `secret`; equal secrets of one kind have equal placeholders."""
    return f"[REDACTED:{kind}:{_digest(secret, settings.SECRET_KEY)}]"


def find_placeholders(secret: str) -> list[str]:
    """Return how the placeholders of a secret end, whatever kind it was taken for, under this and former keys."""
    return [f":{_digest(secret, key)}]" for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def _digest(secret: str, key: str) -> str:
    return hmac.digest(_key(key), secret.encode("utf-8", "surrogatepass"), "sha256")[:4].hex()


@lru_cache(maxsize=4)
def _key(secret_key: str) -> bytes:
    return sha256(b"erl.redaction:" + secret_key.encode()).digest()
