"""Group similar things: greedily, in a given order, each with the first leader it is similar enough to."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from memory.embeddings.base import Vectors

Item = TypeVar("Item")

TRIED = 20  # leaders that are near enough, the nearest first


def group_similar(
    items: Sequence[Item],
    vectors: Vectors,
    *,
    at_least: float,
    may_join: Callable[[Item, Item], bool] = lambda leader, item: True,
) -> list[list[tuple[int, float]]]:
    """Return groups of (index, similarity to the group's first), in the order of their leaders.

    Every member is similar to its leader, so a chain of small steps does not join different things. The same items in
    the same order give the same groups.
    """
    groups: list[list[tuple[int, float]]] = []
    leaders: list[int] = []
    for index, item in enumerate(items):
        similarities = vectors[leaders] @ vectors[index] if leaders else []
        nearest = sorted(
            (
                # Negative, so that of equally near leaders the first one wins when sorted downwards.
                (float(similarity), -position)
                for position, similarity in enumerate(similarities)
                if similarity >= at_least
            ),
            reverse=True,
        )
        best = next((pair for pair in nearest[:TRIED] if may_join(items[leaders[-pair[1]]], item)), None)
        if best is None:
            leaders.append(index)
            groups.append([(index, 1.0)])
        else:
            groups[-best[1]].append((index, min(best[0], 1.0)))
    return groups


def stack(vectors: Iterable[Any]) -> Vectors:
    """Return vectors as the rows of one matrix."""
    return np.stack(list(vectors)).astype(np.float32)


def halve(groups: Sequence[Sequence[Item]]) -> list[list[Sequence[Item]]]:
    """Return groups of lessons in two halves, [] where there is nothing left to part."""
    if len(groups) > 1:
        middle = len(groups) // 2
        return [list(groups[:middle]), list(groups[middle:])]
    (group,) = groups
    if len(group) <= 2:
        return []
    # The lesson that leads a group is what the others are compared with.
    middle = (len(group) + 1) // 2
    return [[group[:middle]], [[group[0], *group[middle:]]]]
