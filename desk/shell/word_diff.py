"""Compare two texts word by word."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from difflib import SequenceMatcher
from typing import Any

from memory.heuristics.text import HeuristicText

AROUND_CHARACTERS = 60  # of unchanged text on each side of a change
_EXACT_WORDS = 2_000
_MIN_WORDS = 6  # shorter texts are compared word by word in any case
_MIN_SHARED = 0.4  # of the words of the shorter text; below, two texts are read side by side
_LABELS = {
    "polarity": "Kind",
    "scope": "Scope",
    "task_id": "Task family",
    "tags": "Tags",
    "source_task": "Learnt from the task",
    "valid_until": "Valid until",
    "expires_after": "Expires after",
}
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffPart:
    """A stretch of text that both have (`same`), that only the first (`removed`) or only the second has (`added`)."""

    kind: str
    text: str


def diff_words(old: str, new: str) -> list[DiffPart]:
    """Return how to read the second text as a change of the first.

    Changes with nothing but a space or a comma between them are one change, so that words are not interleaved. Texts
    that share little are not compared word by word: all of the first is removed, and all of the second added.
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    parts: list[DiffPart] = []
    # Exact for what people write; long texts are compared by their rarer words, or their commonest cost seconds.
    matcher = SequenceMatcher(a=before, b=after, autojunk=len(after) > _EXACT_WORDS)
    shared = 0
    removed = added = ""
    for operation, a, b, c, d in matcher.get_opcodes():
        words = _count_words(before[a:b]) if operation == "equal" else 0
        is_between = (removed or added) and b < len(before)
        if operation == "equal" and (words or not is_between):
            shared += words
            parts += [*_changes(removed, added), DiffPart(kind="same", text="".join(before[a:b]))]
            removed = added = ""
        else:
            removed, added = removed + "".join(before[a:b]), added + "".join(after[c:d])
    parts += _changes(removed, added)
    fewest = min(_count_words(before), _count_words(after))
    if fewest >= _MIN_WORDS and shared < _MIN_SHARED * fewest:
        return _changes(old, new)
    return parts


def _changes(removed: str, added: str) -> list[DiffPart]:
    changes = [DiffPart(kind="removed", text=removed), DiffPart(kind="added", text=added)]
    return [part for part in changes if part.text]


def _count_words(parts: Iterable[str]) -> int:
    return sum(part[0].isalnum() for part in parts)


def diff_heuristics(old: HeuristicText, new: HeuristicText) -> list[DiffPart]:
    """Compare two heuristics word by word. What decides where they are given is spelled out where it differs."""
    changed = [name for name in _LABELS if getattr(old, name) != getattr(new, name)]
    return diff_words(_spell_out(old, changed), _spell_out(new, changed))


def _spell_out(text: HeuristicText, more: Iterable[str]) -> str:
    trigger = text.trigger.removeprefix("When ").removeprefix("when ")
    lines = [f"When: {trigger}", f"Do: {text.guideline}"]
    lines += [f"Avoid: {text.avoid}"] if text.avoid else []
    lines += [f"Not when: {text.not_when}"] if text.not_when else []
    lines += [f"Because: {text.rationale}"] if text.rationale else []
    lines += [f"{_LABELS[name]}: {_write_value(getattr(text, name)) or 'none'}" for name in more]
    return "\n".join(lines)


def _write_value(value: Any) -> str:
    if isinstance(value, timedelta):
        return write_days(value)
    return ", ".join(value) if isinstance(value, tuple) else str(value or "")


def write_days(duration: timedelta) -> str:
    """Return a duration in days, for example "30 days"."""
    days = duration / timedelta(days=1)
    return f"{days:g} day{'' if days == 1 else 's'}"


def shorten_same(old: str, new: str) -> Iterator[DiffPart]:
    """Yield a comparison with what is the same only around the changes."""
    parts = diff_words(old, new)
    for index, part in enumerate(parts):
        text = part.text
        if part.kind == "same" and len(text) > 2 * AROUND_CHARACTERS:
            before = _cut(text, AROUND_CHARACTERS) if index else ""
            after = _cut(text[::-1], AROUND_CHARACTERS)[::-1] if index < len(parts) - 1 else ""
            text = f"{before}…{after}"
        yield DiffPart(kind=part.kind, text=text)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text up to the last space within `most` characters, the space included."""
    kept = text[:most]
    spaces = [index for index, character in enumerate(kept) if character.isspace()]
    return kept[: spaces[-1] + 1] if spaces else kept
