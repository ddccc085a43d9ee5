"""Show the members of a long JSON value that bear on a run, in their order, and how many are left out."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import Any

from memory.limits import JsonLimits
from memory.strict_json import InvalidJson, parse_json
from reflection.reflectors.excerpts import Focus, excerpt, fault_in, stems_of

MAX_LEAVES, MAX_ITEMS = 1_000, 8  # of a value, and of a list, that are weighed
MAX_DEPTH = 6  # what is nested deeper is shown as a text
WHOLE_CHARACTERS = 60  # of a small object or list, which is not taken apart
MIN_TEXT_CHARACTERS, EXCESS_CHARACTERS = 40, 40  # of a text shown in part, and of what an excerpt may have too many
LEFT_OUT, LEFT_OUT_CHARACTERS = "[…]", 12
OF_ANY = 0.5  # what a member counts for that shares no word with the run
NAME_CHARACTERS = 20  # about, with quotes and comma
# Rules about hours and days are about the times in an answer.
TIME_STEMS = stems_of("hour hours day days time")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_ANSWER = JsonLimits(depth_levels=12)
_Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leaf:
    """A value that is not taken apart, and where it stands.

    Similar items of a list are of one kind, and those that matter less have a higher rank.
    """

    path: _Path
    kind: tuple[str, ...]
    value: Any
    text: str
    stems: set[str]
    rank: int

    @classmethod
    def of(cls, path: _Path, value: Any, rank: int) -> "_Leaf":
        kind = tuple(name for name in path if isinstance(name, str))
        text = value if isinstance(value, str) else _write(value)
        stems = stems_of("\n".join((*kind[-1:], text))) | (TIME_STEMS if _TIME.match(text) else set())
        return cls(path=path, kind=kind, value=value, text=text, stems=stems, rank=rank)


def read_json(text: str, limit: int, focus: Focus, asked: Set[str] = frozenset()) -> Any:
    """Return what a tool answered: JSON as JSON, not as a text with all its quotes escaped, of the long its members."""
    if text[:1] not in ("{", "["):
        return excerpt(text, limit, focus)
    try:
        value = parse_json(text.encode(), limits=_ANSWER)
    except InvalidJson:
        return excerpt(text.replace('"', "'"), limit, focus)
    return choose_members(value, limit, focus, asked)


def choose_members(value: Any, limit: int, focus: Focus, asked: Set[str] = frozenset()) -> Any:
    """Return a JSON value of about `limit` characters at most: of a longer one the members whose words matter most.

    One item of a list stands for similar ones while there is no room for more. `asked` are the texts that the call
    itself shows: they need not be shown twice.
    """
    if isinstance(value, str):
        return excerpt(value, limit, focus)
    if len(_write(value)) <= limit:
        return value
    shown: dict[_Path, Any] = {}
    opened: set[_Path] = set()
    room = limit - LEFT_OUT_CHARACTERS
    for leaf in _rank(list(islice(_find_leaves(value, focus, (), 0), MAX_LEAVES)), focus, asked):
        new = {leaf.path[:end] for end in range(1, len(leaf.path) + 1)} - opened
        free = room - sum(_measure(path[-1]) for path in new) - (LEFT_OUT_CHARACTERS + 2) * (len(new) - 1)
        part, text = leaf.value, leaf.text
        if isinstance(part, str) and len(part) > free >= MIN_TEXT_CHARACTERS + EXCESS_CHARACTERS:
            part = text = excerpt(part, free - EXCESS_CHARACTERS, focus)
        if len(text) <= free:
            shown[leaf.path] = part
            opened |= new
            room = free - len(text)
    return _rebuild(value, (), shown, opened) if shown else excerpt(_write(value).replace('"', "'"), limit, focus)


def _find_leaves(value: Any, focus: Focus, path: _Path, rank: int) -> Iterator[_Leaf]:
    text = _write(value)
    if not isinstance(value, dict | list) or (path and len(text) <= WHOLE_CHARACTERS):
        yield _Leaf.of(path, value, rank)
    elif len(path) >= MAX_DEPTH:
        yield _Leaf.of(path, text, rank)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _find_leaves(member, focus, (*path, name), rank)
    else:
        best = sorted(range(len(value)), key=lambda at: (-focus.weigh(_write(value[at])), at))[:MAX_ITEMS]
        for above, at in enumerate(best):
            yield from _find_leaves(value[at], focus, (*path, at), rank + above)


def _rank(leaves: list[_Leaf], focus: Focus, asked: Set[str]) -> list[_Leaf]:
    """Return leaves in the order of what each of their characters tells: a word that many members have tells little."""
    kinds: dict[tuple[str, ...], set[str]] = {}
    for leaf in leaves:
        kinds.setdefault(leaf.kind, set()).update(leaf.stems)
    spread = Counter(stem for stems in kinds.values() for stem in stems)

    def weigh(leaf: _Leaf) -> float:
        if leaf.text in asked:
            return 0.0
        weight = OF_ANY + fsum(focus.members.get(stem, 0.0) / spread[stem] for stem in leaf.stems)
        weight += fault_in("\n".join((*leaf.kind[-1:], leaf.text)))
        return weight / (NAME_CHARACTERS + len(leaf.text)) / (1 + leaf.rank) ** 2

    return sorted(leaves, key=weigh, reverse=True)


def _rebuild(value: Any, path: _Path, shown: Mapping[_Path, Any], opened: Set[_Path]) -> Any:
    """Return the opened members and items in their order, with the number of the others."""
    if path in shown:
        return shown[path]
    if isinstance(value, list):
        items = [_rebuild(item, (*path, at), shown, opened) for at, item in enumerate(value) if (*path, at) in opened]
        return [*items, f"[… {len(value) - len(items)} more]"] if len(items) < len(value) else items
    members = {
        name: _rebuild(member, (*path, name), shown, opened)
        for name, member in value.items()
        if (*path, name) in opened
    }
    return members | {LEFT_OUT: len(value) - len(members)} if len(members) < len(value) else members


def _measure(name: str | int) -> int:
    """Return the characters of a member or an item beside those of its value: name, quotes, colon and comma."""
    return len(name) + 6 if isinstance(name, str) else 3


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
