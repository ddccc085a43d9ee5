"""What every set is made of: pages that may be found and questions that some of them answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True, kw_only=True)
class Page:
    key: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Question:
    key: str
    text: str
    answers: Sequence[str]  # keys of pages


@dataclass(frozen=True, kw_only=True)
class Pairs:
    pages: Sequence[Page]
    questions: Sequence[Question]


def order_by_hash(key: str, *, seed: int = 0) -> str:
    """Sort by this to draw at random, with the same result everywhere."""
    return sha256(f"{seed} {key}".encode()).hexdigest()


def join_lines(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def cut(text: str, characters: int) -> str:
    """Cut a text at a space."""
    return text if len(text) <= characters else text[:characters].rsplit(" ", 1)[0]
