"""What candidates did with tasks of each family, and which of them no other beats in every family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """What a candidate did with the tasks of one family."""

    tasks: int
    solved: int
    steps: float
    tokens: float


Scores = Mapping[str, Score]


def find_front(candidates: Sequence[tuple[Key, Scores]]) -> list[Key]:
    """Return the candidates that no other dominates (a Pareto set over families, as in GEPA), in their order."""
    return [
        key
        for key, scores in candidates
        if not any(dominates(others, scores) for other, others in candidates if other is not key)
    ]


def dominates(one: Scores, other: Scores) -> bool:
    """Tell whether one is nowhere worse, and better in a family: in solved tasks, or in tokens."""
    pairs = [(one[family], other[family]) for family in one]
    no_worse = all(a.solved >= b.solved and a.tokens <= b.tokens for a, b in pairs)
    return no_worse and any(a.solved > b.solved or a.tokens < b.tokens for a, b in pairs)
