"""Put what is alike together: greedily, in a given order, each with the first leader it is like enough."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from memory.embeddings.base import Vectors

Item = TypeVar("Item")


def group_alike(
    items: Sequence[Item],
    vectors: Vectors,
    *,
    at_least: float,
    may_join: Callable[[Item, Item], bool] = lambda leader, item: True,
) -> list[list[tuple[int, float]]]:
    """Return groups of (index, likeness to the group's first), in the order of their leaders.

    Every member is like its leader, so a chain of small steps does not join what differs. The same items in the same
    order give the same groups.
    """
    groups: list[list[tuple[int, float]]] = []
    leaders: list[int] = []
    for index, item in enumerate(items):
        likeness = vectors[leaders] @ vectors[index] if leaders else []
        best = max(
            (
                (float(like), -place)
                for place, like in enumerate(likeness)
                if like >= at_least and may_join(items[leaders[place]], item)
            ),
            default=None,
        )
        if best is None:
            leaders.append(index)
            groups.append([(index, 1.0)])
        else:
            groups[-best[1]].append((index, min(best[0], 1.0)))
    return groups
