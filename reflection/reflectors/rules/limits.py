"""How many tries a task allows, where it says so."""

import re
from dataclasses import dataclass

from memory.runs.episode import Episode

MAX_LIMIT = 30  # more is a bound that hardly any run reaches
MAX_TEXT_CHARS = 20_000

_NUMBER_WORDS = "one two three four five six seven eight nine ten"
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_WORDS.split(), start=1)}
_LIMIT = re.compile(
    r"\b(?:no more than|at most|a maximum of|maximum|up to|limited to|you have(?: only)?|only) "
    rf"(\d{{1,3}}|{'|'.join(_NUMBERS)}) "
    r"((?:[a-z-]{2,20} ){0,2}(?:programs?|calls?|tries|attempts?|guess(?:es)?|actions?|steps?|turns?|moves?|queries"
    r"|commands?|submissions?|questions?|requests?|executions?|interventions?))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TryLimit:
    """A limit as a task states it: 3 "intervention programs"."""

    number: int
    of_what: str
    sentence: str


def find_limit(episode: Episode) -> TryLimit | None:
    """Return the first limit on tries that the task or the instructions state."""
    text = f"{episode.task}\n{episode.system_prompt}"[:MAX_TEXT_CHARS]
    for match in _LIMIT.finditer(text):
        number = int(match[1]) if match[1].isdigit() else _NUMBERS[match[1].lower()]
        if number <= MAX_LIMIT:
            return TryLimit(number=number, of_what=match[2].lower(), sentence=match[0])
    return None
