"""Lessons that name what a task names, however either spells it: a stage of its own, for tasks with names alone."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from memory.retrieval.database import read_prepared
from memory.retrieval.names import MAX_NAMES, find_names, is_near

MOST_LESSONS = 200  # with one name; what more of them name tells them apart no better than a word does
MOST_ADDED = 20  # lessons that names alone bring into question
NEAR = 0.7  # of what a name counts for where it is spelled with a slip

_NAMED = "SELECT place, revision_id, names FROM memory_named(%(project)s, %(keys)s::text[], %(most)s)"


class Naming(NamedTuple):
    """How much of what a task names a lesson names too, 0–1, and the key of the name that counts most in the lesson."""

    share: float
    key: str
    exact: bool


def find_named(project_id: UUID, text: str) -> Mapping[UUID, Naming]:
    """Return the served revisions of a project that name something of a task; no statement where it names nothing."""
    names = [name for name in find_names(text) if not name.is_word][:MAX_NAMES]
    if not names:
        return {}
    keys = [name.key for name in names]
    rows = read_prepared(_NAMED, {"project": project_id, "keys": keys, "most": MOST_LESSONS + 1})
    return weigh(keys, rows)


def weigh(keys: Sequence[str], rows: Sequence[tuple[int, UUID, str]]) -> dict[UUID, Naming]:
    """Return what the names of each revision are worth. The fewer lessons have a name, the more it counts."""
    found: dict[tuple[int, str], set[UUID]] = {}
    for place, revision_id, names in rows:
        key = keys[place - 1]
        for name in (key,) if names == key else names.split():
            if name == key or is_near(key, name):
                found.setdefault((place, name), set()).add(revision_id)
    found = {which: revisions for which, revisions in found.items() if len(revisions) <= MOST_LESSONS}
    known = len({place for place, _ in found})
    best: dict[UUID, dict[int, tuple[float, str, bool]]] = {}
    for (place, name), revisions in found.items():
        exact = name == keys[place - 1]
        weight = (1.0 if exact else NEAR) / (1 + math.log(len(revisions)))
        for revision_id in revisions:
            of_revision = best.setdefault(revision_id, {})
            of_revision[place] = max(of_revision.get(place, (0.0, "", False)), (weight, name, exact))
    return {
        revision_id: Naming(
            min(1.0, sum(weight for weight, _, _ in of_revision.values()) / math.sqrt(known)),
            *max(of_revision.values())[1:],
        )
        for revision_id, of_revision in best.items()
    }


def choose_added(named: Mapping[UUID, Naming]) -> list[UUID]:
    """Return the revisions that are to be considered whatever else speaks for them."""
    return sorted(named, key=lambda revision_id: (-named[revision_id].share, revision_id.int))[:MOST_ADDED]
