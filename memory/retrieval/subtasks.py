"""The parts of a task, and which of them a lesson serves: by the words they share, so it costs no model."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from memory.embeddings.base import split_text
from memory.embeddings.words import SHARED_WORDS

MAX_PARTS = 8
MIN_WORDS = 2
LONG_CHARACTERS = 800  # a story is cut by length: its sentences are not its parts

_STEP = re.compile(r"(?:^|\n+)[^\S\n]*(?:\d+[.)]|[-*•])\s+|(?<=[.!?;])\s+|\n+")
_THEN = re.compile(r",?(?<!\s)\s+(?:and then|then|and also|after that|afterwards|as well as)\s+", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
_ENDING = re.compile(r"(?:ing|ed|es|s|e)$")


def split_task(task: str) -> tuple[str, ...]:
    """Return the parts of a task in its own words and order, or nothing where it has one only."""
    if len(task) > LONG_CHARACTERS:
        parts = split_text(task, characters=max(200, -(-len(task) // (MAX_PARTS - 1))))
    else:
        parts = [part for step in _STEP.split(task) for part in _THEN.split(step)]
    phrases = [" ".join(part.split()).strip(" ,;") for part in parts if len(_read_words(part)) >= MIN_WORDS]
    return tuple(phrases[:MAX_PARTS]) if len(phrases) > 1 else ()


def find_subtasks(parts: Sequence[str], lessons: Iterable[Sequence[str]]) -> list[str]:
    """Return for each lesson, given as its texts, the part that shares most with it; else "".

    A word counts more, the fewer parts have it.
    """
    words_of = [_read_words(part) for part in parts]
    in_parts = Counter(word for words in words_of for word in words)
    subtasks = []
    for texts in lessons:
        lesson_words = frozenset().union(*map(_read_words_of_lesson, texts))
        shared = [
            math.fsum(math.log(1 + len(parts) / in_parts[word]) for word in words & lesson_words)
            / math.sqrt(1 + len(words))
            for words in words_of
        ]
        best = max(range(len(parts)), key=lambda index: (shared[index], -index))
        subtasks.append(parts[best] if shared[best] > 0 else "")
    return subtasks


def _read_words(text: str) -> frozenset[str]:
    return frozenset(
        _ENDING.sub("", word) if len(word) > 4 else word
        for word in _WORD.findall(text.lower().replace("_", " "))
        if word not in SHARED_WORDS
    )


# The same lessons come with every task, and reading the words of 20 costs a tenth of a request; tasks differ
_read_words_of_lesson = lru_cache(maxsize=4000)(_read_words)
