"""Names of tools, ids, files and error codes: which a text has, and which lessons name what a task names.

A name is compared by its letters and digits alone: `cancelOrder`, `cancel_order` and `CANCEL-ORDER` are one. The
database function `memory_names` finds the same names in lessons; a test compares the two.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from memory.embeddings.words import SHARED_WORDS
from memory.retrieval.database import read_prepared

MAX_NAMES = 8  # of a task that are looked for; the first ones
MAX_CHARACTERS = 20_000  # of a text that are read
SHORTEST, LONGEST = 3, 64  # letters and digits of a name
SHORTEST_NEAR, LONG = 6, 10  # a name of one wrong letter may be meant from here on; of two
MOST_CAPITALS = 5  # different words in capitals; more are shouting or a heading
# Words that are written in capitals to stress them, besides those that every task shares.
STRESSED = frozenset(
    "always never must note important warning caution critical required todo else then".split()  # noqa: SIM905
)
LITTLE_WORDS = frozenset("of the to on by in and or a an for at up as it is be use".split())  # noqa: SIM905

MOST_LESSONS = 200  # with one name; a name that more lessons have says no more than a word
MOST_ADDED = 20  # lessons that are considered for their names alone
NEAR = 0.7  # of what a name counts for where it is spelled with a slip

_NAMED = "SELECT place, revision_id, names FROM memory_named(%(project)s, %(keys)s::text[], %(most)s)"

_TOKEN = re.compile(r"[A-Za-z0-9]+(?:(?:::|__|[_.:/-])[A-Za-z0-9]+)*")
_NOT_OF_KEY = re.compile(r"[^A-Za-z0-9]")
_CAPITALS = re.compile(r"[A-Z]+(?:-[A-Z]+)*\Z")
_COMPOUND = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+){2,}\Z")
# An underscore or a pair of colons; a capital inside; a dot before letters; a path; a digit that is no mere number.
_SIGN = re.compile(
    r"_|::|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]{2}|/.*/|\A[A-Za-z].*[0-9]|[A-Za-z][0-9]|[0-9][A-Za-z]{4}", re.DOTALL
)
# Every name has one of these. Nearly all tasks are plain English, and are not taken apart for nothing.
_ANY = re.compile(r"[_:/0-9]|[a-z][A-Z]|[A-Z]{2}|[A-Za-z]\.[A-Za-z]{2}|-[A-Za-z]+-")


class Name(NamedTuple):
    """A name as it is compared, and as it is spelled."""

    key: str
    spelled: str

    @property
    def is_word(self) -> bool:
        """Tell whether it is a word in capitals (SSD, USB) and so short that it could be any other word."""
        return len(self.key) < SHORTEST_NEAR and self.spelled.isalpha() and self.spelled.isupper()


def find_names(text: str) -> tuple[Name, ...]:
    """Return the different names of a text in order."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # ＡＰＩ is API
    if not _ANY.search(text, 0, MAX_CHARACTERS):
        return ()
    spellings: dict[str, str] = {}
    capitals: dict[str, str] = {}
    for token in _TOKEN.findall(text[:MAX_CHARACTERS]):
        for part in _take_apart(token):
            key = _NOT_OF_KEY.sub("", part).lower()
            if key in spellings or not SHORTEST <= len(key) <= LONGEST or key.isdigit():
                continue
            if _SIGN.search(part) or (_COMPOUND.match(part) and not LITTLE_WORDS & set(part.lower().split("-"))):
                spellings[key] = part
            elif _CAPITALS.match(part) and key not in SHARED_WORDS and key not in STRESSED:
                capitals.setdefault(key, part)
    # A word in capitals may be a name elsewhere in the text, with a sign in it.
    capitals = {key: part for key, part in capitals.items() if key not in spellings}
    if len(capitals) <= MOST_CAPITALS:
        spellings |= capitals
    return tuple(Name(key, spelled) for key, spelled in spellings.items())


def is_near(key: str, other: str) -> bool:
    """Tell whether two names differ by a typing mistake: a letter or two, never the first two, never a digit.

    A name with another number is another thing.
    """
    shortest = min(len(key), len(other))
    if shortest < SHORTEST_NEAR or key[:2] != other[:2] or get_digits(key) != get_digits(other):
        return False
    # One wrong letter in a short name makes another name; a long one stands two.
    most = 1 if shortest < LONG else 2
    return abs(len(key) - len(other)) <= most and _count_slips(key, other) <= most


def get_digits(key: str) -> str:
    """Return the digits of a name."""
    return "".join(sign for sign in key if sign.isdigit())


def _take_apart(token: str) -> list[str]:
    """Return a name and its parts: the method of a class, the file of a path, the id behind its kind."""
    # A placeholder is one name; its kind alone would match every secret of that kind.
    if token.startswith("REDACTED:"):
        return [token]
    parts = [token, *re.split(r"[/:]+", token), *re.split(r"[/:.]+", token)]
    return list(dict.fromkeys(parts))


def _count_slips(one: str, other: str) -> int:
    """Return how many letters have to be added, removed, changed or swapped (restricted Damerau distance)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, sign in enumerate(one, 1):
        # Three rows of the table are enough: a swap looks back two.
        longest_ago, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            slips = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (sign != against))
            if i > 1 and j > 1 and sign == other[j - 2] and one[i - 2] == against:
                slips = min(slips, longest_ago[j - 2] + 1)
            row.append(slips)
    return row[-1]


class Naming(NamedTuple):
    """How much of what a task names a lesson names too, 0–1, and the key of the name that counts most in the lesson."""

    share: float
    key: str
    exact: bool


def find_named(project_id: UUID, text: str) -> Mapping[UUID, Naming]:
    """Return the served revisions that name what a task names. A task without names costs no statement."""
    names = [name for name in find_names(text) if not name.is_word][:MAX_NAMES]
    if not names:
        return {}
    keys = [name.key for name in names]
    rows = read_prepared(_NAMED, {"project": project_id, "keys": keys, "most": MOST_LESSONS + 1})
    return weigh(keys, rows)


def weigh(keys: Sequence[str], rows: Sequence[tuple[int, UUID, str]]) -> dict[UUID, Naming]:
    """Return what the names in each revision are worth. The fewer lessons have a name, the more it counts."""
    holders: dict[tuple[int, str], set[UUID]] = {}
    for position, revision_id, names in rows:
        key = keys[position - 1]
        for name in (key,) if names == key else names.split():
            if name == key or is_near(key, name):
                holders.setdefault((position, name), set()).add(revision_id)
    holders = {which: revisions for which, revisions in holders.items() if len(revisions) <= MOST_LESSONS}
    matched = len({position for position, _ in holders})
    best: dict[UUID, dict[int, tuple[float, str, bool]]] = {}
    for (position, name), revisions in holders.items():
        exact = name == keys[position - 1]
        weight = (1.0 if exact else NEAR) / (1 + math.log(len(revisions)))
        for revision_id in revisions:
            of_revision = best.setdefault(revision_id, {})
            of_revision[position] = max(of_revision.get(position, (0.0, "", False)), (weight, name, exact))
    return {
        revision_id: Naming(
            min(1.0, sum(weight for weight, _, _ in of_revision.values()) / math.sqrt(matched)),
            *max(of_revision.values())[1:],
        )
        for revision_id, of_revision in best.items()
    }


def choose_added(named: Mapping[UUID, Naming]) -> list[UUID]:
    """Return the revisions that are considered in any case, those with the most names first."""
    return sorted(named, key=lambda revision_id: (-named[revision_id].share, revision_id.int))[:MOST_ADDED]
