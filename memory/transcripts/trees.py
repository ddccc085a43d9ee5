"""Sessions are trees: a person who goes back and writes another prompt leaves an abandoned branch behind."""

from collections.abc import Callable, Mapping

from .items import Item, Items, get, text
from .log import Json

ROOT = ""
MISSING = None
"""What `parent_of` returns for an item that does not say its parent: the one before it in the file."""

_Id = Callable[[Mapping[str, Json]], str]
_Parent = Callable[[Mapping[str, Json]], str | None]


def live_branch(items: Items, *, id_of: _Id, parent_of: _Parent, leaf: str = "") -> tuple[list[Item], list[Item]]:
    """Return the items from the root to the leaf, and the others. Items with a repeated id are in neither list.

    The leaf is the last item without children, unless one is named. If a parent is not in the file, the item before the
    first one that names it takes its place, so that the session stays in one piece.
    """
    nodes: dict[str, int] = {}  # the place of each id
    kept: list[Item] = []
    for item in items:
        id = id_of(item[1])
        if not id or id not in nodes:
            nodes[id or f"#{len(kept)}"] = len(kept)
            kept.append(item)
    parents = _find_parents(kept, nodes, parent_of)
    last = nodes.get(leaf) if leaf else None
    if last is None:
        has_children = set(parents)
        last = next((at for at in range(len(kept) - 1, -1, -1) if at not in has_children), len(kept) - 1)
    path: list[int] = []
    seen: set[int] = set()
    while last >= 0 and last not in seen:
        seen.add(last)
        path.append(last)
        # Where a history was compacted, its end may hang on the summary, and the summary on that end.
        last = parents[last] if parents[last] not in seen else last - 1
    path.reverse()
    return [kept[at] for at in path], [item for at, item in enumerate(kept) if at not in seen]


def _find_parents(items: list[Item], nodes: Mapping[str, int], parent_of: _Parent) -> list[int]:
    """Return the place of each item's parent, -1 for a root."""
    stand_ins: dict[str, int] = {}
    parents = []
    for at, (_, item) in enumerate(items):
        parent = parent_of(item)
        if parent is MISSING:
            parents.append(at - 1)
        elif parent == ROOT:
            parents.append(-1)
        else:
            parents.append(nodes[parent] if parent in nodes else stand_ins.setdefault(parent, at - 1))
    return parents


def without_copies(items: Items) -> tuple[Items, str]:
    """Return the items of a fork without those copied from its parent, and the id of the parent.

    Claude Code and Qwen Code mark each copy. A fork in which nothing was said yet has only copies, and keeps them.
    """
    own = [item for item in items if not get(item[1], "forkedFrom", "sessionId")]
    parent = next((id for _, line in items if (id := text(line, "forkedFrom", "sessionId"))), "")
    return (own if any("message" in line for _, line in own) else items), parent
