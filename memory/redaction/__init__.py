"""Take secrets and personal data out of JSON values before they are stored, sent or logged (reliability D7).

A secret becomes `[REDACTED:kind:hmac8]`: its kind, and eight hexadecimal digits of a keyed hash, so that two equal
secrets stay recognisably equal while nobody without the key can test a guess. Redacting twice changes nothing.
"""

import hmac
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from typing import Any

from django.conf import settings

from memory.redaction.assignments import find_assignments
from memory.redaction.members import VALUE_MEMBERS, find_named_kind, is_member_secret, read_name
from memory.redaction.personal import find_emails, find_numbers
from memory.redaction.spans import SEPARATOR, Span
from memory.redaction.tokens import find_blocks, find_tokens

_PLACEHOLDER = re.compile(r"\[REDACTED:[a-z0-9_]{1,40}:[0-9a-f]{8}\]")
_LOWER_IN_ASCII = str.maketrans({"\u0130": "i", "\u212a": "k"})  # no others beyond ASCII become ASCII in lower case
_GOES_ON = re.compile(r"[\w+(-]|[.,]\w")


@dataclass(frozen=True, kw_only=True, slots=True)
class Redacted:
    """A value free of secrets, and how many of each kind were taken out."""

    value: Any
    counts: dict[str, int] = field(default_factory=dict)


# A container of the value, the number of the one around it, and where it is there.
_Container = tuple[Any, int, Any]
# Where a text is: the number of its container, the index or key there, and whether it is that key itself.
_Place = tuple[int, Any, bool]


@dataclass(kw_only=True, slots=True)
class _Contents:
    """What a value is made of: its containers, itself in a list of one, and the texts in them with their places."""

    containers: list[_Container] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    named: list[tuple[str, _Place, str]] = field(default_factory=list)  # with the kind its member name gives it


def redact(value: Any) -> Redacted:
    """Return a JSON value without secrets and personal data, in its values and its keys, and what was found.

    The value itself is not changed; the one returned shares with it what held nothing. Members called password, secret,
    token and the like lose their value whatever it looks like. Takes time linear in the size of the value.
    """
    contents = _read(value)
    counts: Counter[str] = Counter()
    changed = _redact_all(contents, counts)
    if not changed:
        return Redacted(value=value)
    return Redacted(value=_rebuild(contents.containers, changed), counts=dict(sorted(counts.items())))


def redact_text(text: str) -> str:
    """Return `text` without secrets and personal data."""
    redacted: str = redact(text).value
    return redacted


def _read(value: Any) -> _Contents:
    """List all containers and texts of a value; with a stack, so that depth is no limit."""
    contents = _Contents()
    stack: list[tuple[Any, int, Any, str]] = [([value], 0, 0, "")]
    while stack:
        item, parent, slot, member = stack.pop()
        number = len(contents.containers)
        contents.containers.append((item, parent, slot))
        is_object = isinstance(item, dict)
        named = find_named_kind(item) if is_object else ""
        children: Iterable[tuple[Any, Any]] = item.items() if is_object else enumerate(item)
        for place, child in children:
            kind = member
            if is_object:
                kind, plain = read_name(place) if isinstance(place, str) else ("", True)
                if not plain:
                    contents.texts.append(place)
                    contents.places.append((number, place, True))
                if named and place in VALUE_MEMBERS:
                    kind = kind or named
            if isinstance(child, dict | list | tuple):
                stack.append((child, number, place, kind))
                continue
            if isinstance(child, str):
                text = child
            elif isinstance(child, int) and not isinstance(child, bool) and (kind or child >= 10**12):
                text = str(child)
            else:
                continue
            if kind:
                contents.named.append((text, (number, place, False), kind))
            else:
                contents.texts.append(text)
                contents.places.append((number, place, False))
    return contents


def _redact_all(contents: _Contents, counts: Counter[str]) -> dict[_Place, str]:
    """Return what the texts that change become, by place."""
    changed: dict[_Place, str] = {}
    pending, owners = contents.texts, contents.places
    for text, place, kind in contents.named:
        if is_member_secret(text, kind=kind):
            counts[kind] += 1
            changed[place] = placeholder(kind, text)
        else:
            pending.append(text)
            owners.append(place)
    # A secret that touched another one was hidden by it, so look again where a placeholder touches a word.
    while pending and (results := _redact_texts(pending, counts)):
        changed |= {owners[number]: new for number, new in results.items()}
        touching = [number for number, new in results.items() if _is_touched(new)]
        owners, pending = [owners[number] for number in touching], [results[number] for number in touching]
    return changed


def _rebuild(containers: list[_Container], changed: dict[_Place, str]) -> Any:
    """Return the value with what changed, in copies of the containers it is in and of those around them."""
    touched: set[int] = set()
    for number, _, _ in changed:
        while number not in touched:
            touched.add(number)
            number = containers[number][1]
    copies: dict[int, Any] = {}
    for number in sorted(touched):  # what is around comes before what is in it
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
        copies[number].clear()
        copies[number].update(items)
    return copies[0][0]


def _is_touched(text: str) -> bool:
    """Say whether a placeholder stands directly beside a word."""
    return any(
        _GOES_ON.match(text, found.end()) or (found.start() and _GOES_ON.match(text[found.start() - 1]))
        for found in _PLACEHOLDER.finditer(text)
    )


def _redact_texts(texts: list[str], counts: Counter[str]) -> dict[int, str]:
    """Redact the texts in one search over all of them; return what changed, by place."""
    blob = SEPARATOR.join(texts)
    spans = _find(blob)
    if not spans:
        return {}
    starts = [0, *accumulate(len(text) + 1 for text in texts)][: len(texts)]
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(bisect_right(starts, span.start) - 1, []).append(span)
    changed = {}
    for place, parts in found.items():
        text, offset, done, pieces = texts[place], starts[place], 0, []
        for start, end, kind in parts:
            pieces += [text[done : start - offset], placeholder(kind, blob[start:end])]
            done = min(end - offset, len(text))
            counts[kind] += 1
        changed[place] = "".join([*pieces, text[done:]])
    return changed


def _find(text: str) -> list[Span]:
    """Find everything in `text`, in order and without overlaps: two that overlap become one."""
    raw = text.encode("ascii", "replace")
    lower = raw.lower()
    if not text.isascii() and ("\u0130" in text or "\u212a" in text):
        lower = text.translate(_LOWER_IN_ASCII).encode("ascii", "replace").lower()
    spans = [
        *find_tokens(text, raw),
        *find_blocks(text, raw),
        *find_assignments(text, raw, lower),
        *find_emails(text, raw),
        *find_numbers(text, raw, lower),
    ]
    if not spans:
        return []
    kept = [match.span() for match in _PLACEHOLDER.finditer(text)]
    result: list[Span] = []
    next_kept = end = 0
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        while next_kept < len(kept) and kept[next_kept][1] <= span.start:
            next_kept += 1
        if next_kept < len(kept) and kept[next_kept][0] < span.end:
            continue  # was redacted before
        if span.start >= end:
            result.append(span)
            end = span.end
        elif span.end > end:  # two that overlap go together
            result[-1] = result[-1]._replace(end=span.end)
            end = span.end
    return result


# ── Placeholders ──────────────────────────────────────────────────────────────────────────────────────────────────
def placeholder(kind: str, secret: str) -> str:
    """Return what stands for `secret`: equal secrets of one kind have equal placeholders."""
    digest = hmac.digest(_key(settings.SECRET_KEY), secret.encode("utf-8", "surrogatepass"), "sha256")
    return f"[REDACTED:{kind}:{digest[:4].hex()}]"


@lru_cache(maxsize=4)
def _key(secret_key: str) -> bytes:
    return sha256(b"erl.redaction:" + secret_key.encode()).digest()
