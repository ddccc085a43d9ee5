"""Tidy a block: leave out lines that say what another says, and lines that a newer one of the same key replaces.

A line of the form "key: value" has a key. Most keys may stand for several things at once (allergies, meetings,
contacts), so a line is replaced only where its key has one value at a time and both lines are about the same subject.
What is left out is only ever proposed: see `propose_tidied`.
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
# Keys that have one value at a time. All others, and whatever is not listed, may have several.
_SINGLE_VALUED = frozenset(
    {"seat", "age", "weight", "height", "timezone", "time zone", "marital status", "employer", "job title"}
    | {"home address", "home airport", "home city", "hometown", "default branch", "package manager", "python version"}
    | {"node version", "currency", "budget", "temperature unit", "theme", "branch", "mood", "loyalty tier"}
)
_QUALIFIED_KEY = re.compile(r"(?:my|user|user's|current|preferred|default|\w+['’]s) (?P<key>.+)")
# Words that describe a value and tell nothing about whose it is, or when
_DESCRIBING = frozenset(
    {"a", "an", "the", "by", "on", "in", "at", "window", "aisle", "middle", "front", "back", "left", "right", "side"}
    | {"years", "old"}
)
# "Ben is vegan": what follows may be about Ben
_SUBJECT = re.compile(
    r"(?!(?:User|He|She|They|It|This|That|The)\b)[^\W\d_a-z]\w+ "
    r"(?:is|was|has|had|wants|needs|prefers|likes|loves|flies|travels|lives|works|sits|goes)\b"
)
_HEADING_WORDS = 3
_QUOTED_CHARACTERS = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Tidied:
    """A tidied value, and the lines that are left out of it; each replaced one with the line that replaces it."""

    value: str
    repeated: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...]

    @property
    def reason(self) -> str:
        """Say what is left out, for the person who decides."""
        count = len(self.repeated)
        sentences = [f"{count} {'line repeats another one' if count == 1 else 'lines repeat others'}."] if count else []
        sentences += [f"“{_quote(old)}” is replaced by “{_quote(new)}”." for old, new in self.replaced]
        return " ".join(sentences)


def tidy(value: str) -> Tidied:
    """Return a value without what repeats and what is replaced. The first of equal lines stays, the last of a key."""
    lines = value.splitlines()
    repeated = _find_repeated(lines)
    replaced = _find_replaced(lines, without=repeated)
    kept = [line for index, line in enumerate(lines) if index not in repeated and index not in replaced]
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
    # Proposed before on this very value, and perhaps rejected.
    if locked.revisions.filter(created_by=by.label, value=tidied.value, base=current).exists():
        return None
    return add_waiting(
        locked, BlockRevision.Operation.SET, tidied.value, Edit(by=by, reason=tidied.reason), base=current
    )


def _find_repeated(lines: list[str]) -> set[int]:
    seen: set[tuple[int, str]] = set()
    repeated = set()
    for index, (section, line) in enumerate(_by_section(lines)):
        statement = section, _BULLET.sub("", line).strip()
        if len(statement[1]) < FEWEST_CHARACTERS:
            continue
        if statement in seen:
            repeated.add(index)
        seen.add(statement)
    return repeated


def _find_replaced(lines: list[str], *, without: set[int]) -> dict[int, int]:
    """Return the lines that a later one replaces, with the number of that line. In doubt none is replaced."""
    keyed: dict[tuple[int, str, str], list[int]] = {}
    for index, (subject, line) in enumerate(_by_subject(lines)):
        match = _KEYED.fullmatch(line)
        if match is not None and index not in without:
            indent = line[: len(line) - len(line.lstrip())]
            keyed.setdefault((subject, indent, match["key"].strip().lower()), []).append(index)
    # With three lines of a key it is unclear which replaces which, so none goes.
    return {
        indexes[0]: indexes[1]
        for (_, _, key), indexes in keyed.items()
        if len(indexes) == 2 and _has_one_value(key) and _qualifies_alike(*(lines[index] for index in indexes))
    }


def _has_one_value(key: str) -> bool:
    qualified = _QUALIFIED_KEY.fullmatch(key)
    return key in _SINGLE_VALUED or (qualified is not None and qualified["key"] in _SINGLE_VALUED)


def _qualifies_alike(old: str, new: str) -> bool:
    """Tell whether two lines say the same besides the value itself: for whom, with whom, when."""
    return _find_qualifiers(old) == _find_qualifiers(new)


def _find_qualifiers(line: str) -> list[str]:
    match = _KEYED.fullmatch(line)
    assert match is not None
    words = match["value"].split()
    # The value is its first word; a list, or a bracket or slash within the word, belongs to the rest.
    unclear = [sign for sign in words[0] if sign in "()[]/&+,;|"]
    return [*unclear, *(word for word in words[1:] if word.strip(".,").lower() not in _DESCRIBING)]


def _quote(line: str) -> str:
    line = _BULLET.sub("", line).strip()
    return line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}…"


def _by_subject(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each line with a number that changes wherever the text may begin to be about something else."""
    subject = last = 0
    for section, line in _by_section(lines):
        text = _BULLET.sub("", line).strip()
        match = _KEYED.fullmatch(line)
        starts = section != last or not text
        if match is not None:  # a record begins with its name: "Name: Ben", "Passenger: Ben"
            starts |= not _has_one_value(match["key"].strip().lower())
        elif text:
            starts |= len(text.split()) <= _HEADING_WORDS or _SUBJECT.match(text) is not None
        subject, last = subject + starts, section
        yield subject, line


def _by_section(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each line with the number of its section: what stands under another heading is about something else."""
    section = 0
    for line in lines:
        # A Markdown heading, or a line such as "Allergies:".
        section += line.startswith("#") or line.rstrip().endswith(":")
        yield section, line
