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
_GOES_ON = re.compile(r"[\w+(-]|[.,]\w")


@dataclass(frozen=True, kw_only=True, slots=True)
class Redacted:
    """A value free of secrets, and how many of each kind were taken out."""

    value: Any
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Text:
    """A text of the value and where it stands; `member` is the kind its member name gives it."""

    text: str
    container: Any
    slot: Any
    member: str
    is_key: bool = False


def redact(value: Any) -> Redacted:
    """Return a JSON value without secrets and personal data, in its values and its keys, and what was found.

    The value itself is not changed. Members called password, secret, token and the like lose their value whatever it
    looks like. Takes time linear in the size of the value.
    """
    copy, texts = _flatten(value)
    counts: Counter[str] = Counter()
    renamed: dict[int, tuple[dict[Any, Any], dict[Any, str]]] = {}
    for text, new in _redact_all(texts, counts):
        if text.is_key:
            renamed.setdefault(id(text.container), (text.container, {}))[1][text.slot] = new
        else:
            text.container[text.slot] = new
    for container, names in renamed.values():
        items = [(names.get(key, key), item) for key, item in container.items()]
        container.clear()
        container.update(items)
    return Redacted(value=copy[0] if counts else value, counts=dict(sorted(counts.items())))


def redact_text(text: str) -> str:
    """Return `text` without secrets and personal data."""
    redacted: str = redact(text).value
    return redacted


def _flatten(value: Any) -> tuple[list[Any], list[_Text]]:
    """Copy the containers, in a list of one, and list every text in them; with a stack, so that depth is no limit."""
    root: list[Any] = [None]
    texts: list[_Text] = []
    stack: list[tuple[Any, Any, Any, str]] = [(value, root, 0, "")]
    while stack:
        item, container, slot, member = stack.pop()
        if isinstance(item, str):
            texts.append(_Text(item, container, slot, member))
        elif isinstance(item, dict):
            new: dict[Any, Any] = dict(item)
            named = find_named_kind(item)
            for key, child in item.items():
                kind, plain = read_name(key) if isinstance(key, str) else ("", True)
                if not plain:
                    texts.append(_Text(key, new, key, "", is_key=True))
                if named and key in VALUE_MEMBERS:
                    kind = kind or named
                stack.append((child, new, key, kind))
            item = new
        elif isinstance(item, list | tuple):
            copied = list(item)
            stack.extend((child, copied, place, member) for place, child in enumerate(item))
            item = copied
        elif isinstance(item, int) and not isinstance(item, bool) and (member or item >= 10**12):
            texts.append(_Text(str(item), container, slot, member))
        container[slot] = item
    return root, texts


def _redact_all(texts: list[_Text], counts: Counter[str]) -> Iterable[tuple[_Text, str]]:
    """Give the texts that change and what they become."""
    rest: list[_Text] = []
    for text in texts:
        if text.member and is_member_secret(text.text, kind=text.member):
            counts[text.member] += 1
            yield text, placeholder(text.member, text.text)
        else:
            rest.append(text)
    # A secret that touched another one was hidden by it, so look again where a placeholder touches a word.
    owners, pending = rest, [text.text for text in rest]
    changed: dict[int, tuple[_Text, str]] = {}
    while pending and (results := _redact_texts(pending, counts)):
        changed |= {id(owners[place]): (owners[place], new) for place, new in results.items()}
        touching = [place for place, new in results.items() if _is_touched(new)]
        owners, pending = [owners[place] for place in touching], [results[place] for place in touching]
    yield from changed.values()


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
    lower = text.lower()
    if len(lower) != len(text):  # U+0130 alone grows when lowered
        lower = text.replace("\u0130", "I").lower()
    spans = [
        *find_tokens(text, raw),
        *find_blocks(text),
        *find_assignments(text, lower),
        *find_emails(text),
        *find_numbers(text, lower, raw),
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
