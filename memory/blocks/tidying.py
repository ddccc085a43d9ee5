"""Tidy a block: leave out lines that say what another says, and lines that a newer one of the same key replaces.

A line of the form "key: value" has a key. What is left out is only ever proposed: see `propose_tidied`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import transaction

from memory.blocks.edits import Edit, add_waiting
from memory.blocks.models import Block, BlockRevision
from memory.projects.actors import Actor

FEWEST_CHARACTERS = 12  # of a line that is not said twice by chance
_KEYED = re.compile(r"\s*(?:[-*•]\s*)?(?P<key>[^\W\d_][\w ./'-]{0,59}?)\s*[:=]\s+(?P<value>\S.*)")
_BULLET = re.compile(r"^\s*[-*•]\s*")
# Words that begin several lines which do not contradict each other.
_COMMON = frozenset(
    {"also", "attention", "caution", "e.g", "example", "fact", "hint", "important", "lesson", "note", "reminder"}
    | {"rule", "see", "step", "then", "tip", "todo", "warning"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tidied:
    """A tidied value, and the lines that are left out of it."""

    value: str
    repeated: tuple[str, ...]
    replaced: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Say what is left out, for the person who decides."""
        counted = (
            (len(self.repeated), "line repeats another one", "lines repeat others"),
            (len(self.replaced), "line is replaced by a newer one", "lines are replaced by newer ones"),
        )
        return " ".join(f"{count} {one if count == 1 else more}." for count, one, more in counted if count)


def tidy(value: str) -> Tidied:
    """Return a value without what repeats and what is replaced. The first of equal lines stays, the last of a key."""
    lines = value.splitlines()
    repeated = _find_repeated(lines)
    replaced = _find_replaced(lines, without=repeated)
    kept = [line for index, line in enumerate(lines) if index not in repeated | replaced]
    return Tidied(
        value="\n".join(kept) + ("\n" if value.endswith("\n") else ""),
        repeated=tuple(lines[index] for index in sorted(repeated)),
        replaced=tuple(lines[index] for index in sorted(replaced)),
    )


@transaction.atomic
def propose_tidied(block: Block, *, by: Actor) -> BlockRevision | None:
    """Propose a tidied value of a block, whatever its policy; None where there is nothing to tidy, or it was proposed.

    It is in effect after a person has approved it. What was rejected is not proposed again.
    """
    locked = Block.objects.select_for_update(of=("self",)).select_related("current").get(pk=block.pk)
    current = locked.current
    if current is None or locked.read_only:
        return None
    tidied = tidy(current.value)
    if not (tidied.repeated or tidied.replaced):
        return None
    if locked.revisions.filter(created_by=by.label, value=tidied.value, base=current).exists():
        return None
    return add_waiting(
        locked, BlockRevision.Operation.SET, tidied.value, Edit(by=by, reason=tidied.reason), base=current
    )


def _find_repeated(lines: list[str]) -> set[int]:
    seen: set[tuple[int, str]] = set()
    repeated = set()
    for index, (section, line) in enumerate(_by_section(lines)):
        said = section, _BULLET.sub("", line).strip()
        if len(said[1]) < FEWEST_CHARACTERS:
            continue
        if said in seen:
            repeated.add(index)
        seen.add(said)
    return repeated


def _find_replaced(lines: list[str], *, without: set[int]) -> set[int]:
    """Return the lines whose key a later line has. A key with more than two values is the name of a list."""
    keyed: dict[tuple[int, str], list[int]] = {}
    for index, (section, line) in enumerate(_by_section(lines)):
        found = _KEYED.fullmatch(line)
        if found is not None and index not in without and (key := found["key"].strip().lower()) not in _COMMON:
            keyed.setdefault((section, key), []).append(index)
    return {places[0] for places in keyed.values() if len(places) == 2}


def _by_section(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each line with the number of its section: what stands under another heading is about something else."""
    section = 0
    for line in lines:
        section += line.startswith("#") or line.rstrip().endswith(":")
        yield section, line
