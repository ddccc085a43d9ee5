"""What a scripted agent takes from the lessons in its prompt: the tools and arguments that a lesson names in backticks.

It understands four kinds of advice: call one tool before another, give an argument in a form, use one tool instead of
another, and each of these with "do not". A lesson counts for a call if its condition names that tool. It does not know
whether a lesson is right.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_LESSON = re.compile(r"^\d+\. \[H-[0-9a-f]{8}\] (?P<condition>.*?): (?P<advice>[A-Z].*)$")
_EXCEPTIONS = re.compile(r" \((?:avoid|not when): ")
_NAME = re.compile(r"`([^`]+)`")
_NOT = re.compile(r"^(do not|don't|never)\b", re.IGNORECASE)
_FIRST = re.compile(r"\bfirst\b|\bbefore\b|\bfrom (the|its) answer\b|\blook\b.{0,60} up\b", re.IGNORECASE)
_FORM = re.compile(r"\b(give|pass|write|send|copy)\b", re.IGNORECASE)
_FORMS: tuple[tuple[re.Pattern[str], Callable[[Any], bool]], ...] = (
    (re.compile(r"\b(number|integer)\b"), lambda value: isinstance(value, (int, float))),
    (re.compile(r"\b(text|string)\b"), lambda value: isinstance(value, str)),
    (re.compile(r"\blist\b"), lambda value: isinstance(value, list)),
    (re.compile(r"YYYY-MM-DD"), lambda value: re.match(r"\d{4}-\d\d-\d\d", str(value)) is not None),
    (re.compile(r"\b(capitals?|upper case)\b"), lambda value: str(value).isupper()),
    (re.compile(r"\blower case\b"), lambda value: str(value).islower()),
    (re.compile(r"\b(bare name|without .{0,60} in front)\b"), lambda value: not re.match(r"\W", str(value))),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One sentence of a lesson: the tools its condition names, what it names itself, and whether it says no."""

    condition: frozenset[str]
    names: tuple[str, ...]
    text: str
    is_negative: bool


@dataclass(frozen=True, slots=True)
class GivenAdvice:
    """All that a block of lessons tells the agent."""

    sentences: tuple[Sentence, ...] = field(default=())

    def comes_first(self, tool: str, later: str) -> bool | None:
        """Return whether a tool is to be called before another; None if no lesson says."""
        for sentence in self._about(later):
            if tool in sentence.names and tool != later and _FIRST.search(sentence.text):
                return not sentence.is_negative
        return None

    def first_of(self, later: str) -> Iterator[str]:
        """Yield what lessons name as coming before this tool: tools, and arguments too."""
        for sentence in self._about(later):
            if not sentence.is_negative and _FIRST.search(sentence.text):
                yield from (name for name in sentence.names if name != later)

    def form_of(self, tool: str, argument: str, *, right: Any, wrong: Any) -> Any:
        """Return the value to give: of the two that the agent has in mind the one that a lesson describes, or None."""
        for sentence in self._about(tool):
            if argument in sentence.names and _FORM.search(sentence.text):
                text = sentence.text.partition(", not ")[0]
                fits = [(holds(right), holds(wrong)) for pattern, holds in _FORMS if pattern.search(text)]
                is_right = next((fits_right for fits_right, fits_wrong in fits if fits_right != fits_wrong), True)
                return right if is_right != sentence.is_negative else wrong
        return None

    def prefers(self, tool: str, other: str) -> bool | None:
        """Return whether a tool is to be used instead of another; None if no lesson says."""
        for sentence in self._about(other):
            if tool in sentence.names and "instead" in sentence.text:
                return not sentence.is_negative
        return None

    def _about(self, tool: str) -> Iterator[Sentence]:
        return (sentence for sentence in self.sentences if tool in sentence.condition)


def read_advice(block: str) -> GivenAdvice:
    """Read the lessons of a context block, in its order; earlier ones count first."""
    return GivenAdvice(tuple(sentence for line in block.splitlines() for sentence in _read(line)))


def _without_exceptions(advice: str) -> str:
    begins = _EXCEPTIONS.search(advice) if advice.endswith(")") else None
    return advice[: begins.start()] if begins else advice


def _read(line: str) -> Iterator[Sentence]:
    match = _LESSON.match(line)
    if match is None:
        return
    condition = frozenset(_NAME.findall(match["condition"]))
    for text in re.split(r"(?<=[.;]) +", _without_exceptions(match["advice"])):
        names = tuple(_NAME.findall(text))
        if names:
            yield Sentence(condition=condition, names=names, text=text, is_negative=bool(_NOT.match(text)))
