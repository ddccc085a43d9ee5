"""Names that stand in texts: of tools, ids, files and error codes, as against words.

A name is compared by its letters and digits alone: `cancelOrder`, `cancel_order` and `CANCEL-ORDER` are one. The
function `memory_names` of the database finds the same names in lessons; a test compares the two.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from memory.embeddings.words import SHARED_WORDS

MAX_NAMES = 8  # of a task that are looked for; the first ones
MAX_CHARACTERS = 20_000  # of a text that are read
SHORTEST, LONGEST = 3, 64  # letters and digits of a name
SHORTEST_NEAR, LONG = 6, 10  # a name of one wrong letter may be meant from here on; of two
MOST_CAPITALS = 5  # different words in capitals; more are shouting or a heading
# Words that are written in capitals to stress them, beside those that every task shares.
STRESSED = frozenset(
    "always never must note important warning caution critical required todo else then".split()  # noqa: SIM905
)
LITTLE_WORDS = frozenset("of the to on by in and or a an for at up as it is be use".split())  # noqa: SIM905

_TOKEN = re.compile(r"[A-Za-z0-9]+(?:(?:::|__|[_.:/-])[A-Za-z0-9]+)*")
_NOT_OF_KEY = re.compile(r"[^A-Za-z0-9]")
_CAPITALS = re.compile(r"[A-Z]+(?:-[A-Z]+)*\Z")
_COMPOUND = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+){2,}\Z")
# An underscore or a pair of colons; a capital inside; a dot before letters; a path; a digit that is no mere number.
_SIGN = re.compile(
    r"_|::|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]{2}|/.*/|\A[A-Za-z].*[0-9]|[A-Za-z][0-9]|[0-9][A-Za-z]{4}", re.DOTALL
)
# What every name has something of. Nearly all tasks are plain English, and are not taken apart for nothing.
_ANY = re.compile(r"[_:/0-9]|[a-z][A-Z]|[A-Z]{2}|[A-Za-z]\.[A-Za-z]{2}|-[A-Za-z]+-")


class Name(NamedTuple):
    """A name as it is compared, and as it is spelled."""

    key: str
    spelled: str

    @property
    def is_word(self) -> bool:
        """Tell whether it is a word in capitals (SSD, USB) and so short that it is as good as any other word."""
        return len(self.key) < SHORTEST_NEAR and self.spelled.isalpha() and self.spelled.isupper()


@lru_cache(maxsize=1000)
def find_names(text: str) -> tuple[Name, ...]:
    """Return the different names of a text in their order."""
    if not _ANY.search(text, 0, MAX_CHARACTERS):
        return ()
    found: dict[str, str] = {}
    capitals: dict[str, str] = {}
    for token in _TOKEN.findall(text[:MAX_CHARACTERS]):
        for part in _take_apart(token):
            key = _NOT_OF_KEY.sub("", part).lower()
            if key in found or not _has_length(key):
                continue
            if _SIGN.search(part) or (_COMPOUND.match(part) and not LITTLE_WORDS & set(part.lower().split("-"))):
                found[key] = part
            elif _CAPITALS.match(part) and key not in SHARED_WORDS and key not in STRESSED:
                capitals.setdefault(key, part)
    capitals = {key: part for key, part in capitals.items() if key not in found}
    if len(capitals) <= MOST_CAPITALS:
        found |= capitals
    return tuple(Name(key, spelled) for key, spelled in found.items())


def is_near(key: str, other: str) -> bool:
    """Tell whether two names differ by a slip: a letter or two, never the first two, never a digit.

    A name of another number is another thing.
    """
    shortest = min(len(key), len(other))
    if shortest < SHORTEST_NEAR or key[:2] != other[:2] or get_digits(key) != get_digits(other):
        return False
    most = 1 if shortest < LONG else 2
    return abs(len(key) - len(other)) <= most and _count_slips(key, other) <= most


def get_digits(key: str) -> str:
    """Return the digits of a name."""
    return "".join(sign for sign in key if sign.isdigit())


def _take_apart(token: str) -> list[str]:
    """Return a name and those it is made of: a method of its class, a file of its path, an id of its kind."""
    if token.startswith("REDACTED:"):
        return [token]
    parts = [token, *re.split(r"[/:]+", token), *re.split(r"[/:.]+", token)]
    return list(dict.fromkeys(parts))


def _has_length(key: str) -> bool:
    return SHORTEST <= len(key) <= LONGEST and not key.isdigit()


def _count_slips(one: str, other: str) -> int:
    """Return how many letters are to be put in, taken out, changed or turned around (Damerau, restricted)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, sign in enumerate(one, 1):
        longest_ago, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            slips = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (sign != against))
            if i > 1 and j > 1 and sign == other[j - 2] and one[i - 2] == against:
                slips = min(slips, longest_ago[j - 2] + 1)
            row.append(slips)
    return row[-1]
