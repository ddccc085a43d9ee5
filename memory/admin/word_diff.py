"""Compare two texts word by word."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from memory.heuristics.text import HeuristicText

_EXACT_WORDS = 2_000
_LABELS = {
    "polarity": "Kind",
    "scope": "Scope",
    "task_id": "Task family",
    "tags": "Tags",
    "source_task": "Learnt from the task",
}
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffPart:
    """A stretch of text that both have (`same`), that only the first (`removed`) or only the second has (`added`)."""

    kind: str
    text: str


def diff_words(old: str, new: str) -> list[DiffPart]:
    """Return how to read the second text as a change of the first."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    parts: list[DiffPart] = []
    # Exact for what people write; long texts are compared by their rarer words, or their commonest cost seconds.
    matcher = SequenceMatcher(a=before, b=after, autojunk=len(after) > _EXACT_WORDS)
    for operation, a, b, c, d in matcher.get_opcodes():
        if operation == "equal":
            parts.append(DiffPart(kind="same", text="".join(before[a:b])))
            continue
        if a < b:
            parts.append(DiffPart(kind="removed", text="".join(before[a:b])))
        if c < d:
            parts.append(DiffPart(kind="added", text="".join(after[c:d])))
    return parts


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
    for name in more:
        value = getattr(text, name)
        lines.append(f"{_LABELS[name]}: {(value if isinstance(value, str) else ', '.join(value)) or 'none'}")
    return "\n".join(lines)
