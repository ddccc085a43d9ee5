"""A lesson in its place in an answer."""

from dataclasses import dataclass, field

from memory.retrieval.candidates import Candidate


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A candidate in its place, with its component scores and one sentence why.

    `fits` says that it is like enough to the task to be injected; others are listed for who wants to look. `value` is
    what it is worth beside the others in the block. `subtask` is the part of the task it serves, empty for the whole.
    """

    candidate: Candidate
    fits: bool = True
    value: float = 1.0
    scores: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    subtask: str = ""
