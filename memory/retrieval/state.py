"""Which state a project is in, asked with every task, and what else is wanted of the database then.

Triggers write a token for every change of what a project serves (`memory_servedchange`); the exclusive or of its tokens
names its state. What a process remembers belongs to a state and is used in no other.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from memory.retrieval.database import read_prepared
from memory.retrieval.known import KNOWN_TASKS, Known
from memory.retrieval.snapshot import Words

STATE = """
SELECT changed.whole, changed.texts, coalesce((SELECT id FROM memory_embeddingmodel WHERE active), ''){more}
FROM (SELECT bit_xor(token) AS whole, bit_xor(token) FILTER (WHERE of_texts) AS texts
      FROM memory_servedchange WHERE project_id = %(project)s) AS changed
"""
_WORDS_OF_TASK = ", memory_query_vector(%(project)s, %(text)s)"


class State(NamedTuple):
    """Names what a project serves: all that an answer says, the texts that are searched, the model of their vectors."""

    whole: int | None
    texts: int | None
    model: str

    @property
    def searched(self) -> tuple[int | None, str]:
        """Name what is searched alone."""
        return self.texts, self.model


class Beside(Protocol):
    """Something else that is wanted of the database, and comes along with the state of a project."""

    parameters: dict[str, Any]

    @property
    def columns(self) -> str:
        """What is wanted, in SQL."""

    def take(self, columns: Sequence[Any], /) -> None:
        """Take it."""


_known_words: Known[tuple[State, Words]] = Known(KNOWN_TASKS)


def read_state(
    project_id: UUID, text: str, name: bytes, beside: Beside | None = None, *, anew: bool = False
) -> tuple[State, Words | None]:
    """Return what the project serves now, by name, and the words of a task if they are at hand.

    A new task needs its words, which come along; of a task that was asked before the answer is probably known.
    `anew` asks for the words in any case.
    """
    known = None if anew else _known_words.find((project_id, name))
    more, parameters = "", dict[str, Any](project=project_id)
    if known is None:
        more, parameters = _WORDS_OF_TASK, parameters | {"text": text}
    if beside is not None:
        more, parameters = f"{more}, {beside.columns}", beside.parameters | parameters
    ((*row,),) = read_prepared(_write_state(more), parameters)
    state, columns = State(*row[: len(State._fields)]), row[len(State._fields) :]
    words = known[1] if known is not None and known[0] == state else None
    if known is None:
        words = Words.read(columns.pop(0))
        _known_words.keep((project_id, name), (state, words))
    if beside is not None:
        beside.take(columns)
    return state, words


@lru_cache(maxsize=16)
def _write_state(more: str) -> str:
    return STATE.format(more=more)
