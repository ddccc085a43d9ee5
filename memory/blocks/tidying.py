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
# The last words of keys of which a person or a thing has one at a time. All others may have several values that hold
# together, as of allergies, meetings, orders and notes.
_SINGLE = re.compile(
    r"address|age|airport|balance|birthday|branch|budget|city|company|country|currency|database|"
    r"deadline|department|editor|e-?mail|employer|gate|gender|goal|height|host(?:name)?|job|language|"
    r"locale|location|manager|model|mood|(?:nick|user)?name|occupation|os|owner|phase|phone|plan|port|"
    r"price|priority|progress|rank|residence|role|room|salary|score|seat|shell|size|stage|state|"
    r"status|tier|timezone|title|total|url|version|weight|zip|zone"
)
# What says of whom or when a value holds: "(Ana)", "with Ana", "Mon 9:00". Values that differ in it may both hold.
_QUALIFIED = re.compile(
    r"[(\[{;]|,(?!\d)|\s[|/]\s|\b(?:and|or|with|for|of|if|when|while|until|till|since|before|after|from|only|also|except|backup|work"
    r"|home|personal|private|old|new|alternative|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?"
    r"|today|tomorrow|weekends?|summer|winter|morning|evening|night)\b|\d:\d\d",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\s(?:[A-Z][a-z]|[^\x00-\x7f])")  # a name after the first word, as of another person
_SHOWN = 80  # characters of a line in a reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Tidied:
    """A tidied value, and the lines that are left out of it."""

    value: str
    repeated: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...]  # each with the line that replaces it

    @property
    def reason(self) -> str:
        """Say what is left out and why, for the person who decides."""
        said = [f"“{_short(line)}” is said twice." for line in self.repeated]
        said += [f"“{_short(old)}” is replaced by “{_short(new)}”." for old, new in self.replaced]
        return " ".join(said)


def tidy(value: str) -> Tidied:
    """Return a value without what repeats and what is replaced. The first of equal lines stays, the last of a key."""
    lines = value.splitlines()
    repeated = _find_repeated(lines)
    replaced = _find_replaced(lines, without=repeated)
    kept = [line for index, line in enumerate(lines) if index not in repeated | replaced.keys()]
    return Tidied(
        value="\n".join(kept) + ("\n" if value.endswith("\n") else ""),
        repeated=tuple(lines[index] for index in sorted(repeated)),
        replaced=tuple((lines[old], lines[new]) for old, new in sorted(replaced.items())),
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


def _find_replaced(lines: list[str], *, without: set[int]) -> dict[int, int]:
    """Return the lines that a later one replaces, with that one: the two values of a key that has one at a time.

    A key with more values is the name of a list.
    """
    keyed: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for index, (section, line) in enumerate(_by_section(lines)):
        found = _KEYED.fullmatch(line)
        if found is not None and index not in without:
            keyed.setdefault((section, found["key"].strip().lower()), []).append((index, found["value"]))
    pairs = ((key, places) for (_, key), places in keyed.items() if len(places) == 2)
    return {old: new for key, ((old, before), (new, after)) in pairs if _replaces(key, before, after)}


def _replaces(key: str, before: str, after: str) -> bool:
    """Tell whether only one of two values of a key can hold. In doubt both may."""
    if not _SINGLE.fullmatch(key.split()[-1]):
        return False
    return not any(_QUALIFIED.search(value) or _NAMED.search(value) for value in (before, after))


def _short(line: str) -> str:
    said = _BULLET.sub("", line).strip()
    return said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"


def _by_section(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each line with the number of its section: what stands under another heading is about something else."""
    section = 0
    for line in lines:
        section += line.startswith("#") or line.rstrip().endswith(":")
        yield section, line
