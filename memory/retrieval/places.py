"""A lesson in its place in an answer."""

from typing import NamedTuple

from memory.retrieval.candidates import Candidate


class Ranked(NamedTuple):  # every task makes twenty
    """A candidate in its place, with its component scores and one sentence why.

    `fits` says that it is like enough to the task to be injected; others are listed for who wants to look. `value` is
    what it is worth beside the others in the block. `subtask` is the part of the task it serves, empty for the whole.
    """

    candidate: Candidate
    scores: dict[str, float]
    reason: str
    fits: bool = True
    value: float = 1.0
    subtask: str = ""
