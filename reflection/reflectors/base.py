"""What a reflector is: it reads a finished run and proposes lessons, or says why there are none."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from memory.heuristics.text import Citation, HeuristicText
from memory.runs.episode import Episode


@dataclass(frozen=True, kw_only=True, slots=True)
class NearHeuristic:
    """An existing heuristic close to a run, shown to the reflector so that it can answer "already covered"."""

    id: UUID
    trigger: str
    guideline: str
    similarity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedLesson:
    """A lesson with the steps it is drawn from. `confidence` is 0–1; `covers_existing` names a heuristic it repeats.

    `pattern` is the key of what was found in the run, the same in every run that shows it; "" where it has none.
    `family_runs` are positions in the family of the episode: the other runs from which the text has words that its own
    run does not have.
    """

    text: HeuristicText
    citations: tuple[Citation, ...]
    confidence: float | None = None
    covers_existing: UUID | None = None
    tools: tuple[str, ...] = ()
    pattern: str = ""
    family_runs: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReflectionResult:
    """The result of one reflection: lessons, or a sentence saying why there are none.

    `patterns` are the keys of all that the run shows, proposed or not; None where the reflector does not look for any.
    """

    lessons: tuple[ProposedLesson, ...] = ()
    skip_reason: str = ""
    patterns: tuple[str, ...] | None = None


class Reflector(Protocol):
    """Reads one run. `name` and `version` go onto every heuristic it proposes.

    Where `reads_near` is False, near heuristics are not searched for and `near` is empty. Where `reads_family` is
    False, the episode comes without other runs of its family. Where `reads_tries` is True, several tries of a task that
    wait at once come as one run, and the episode says what runs that ended otherwise did.
    """

    name: str
    version: str
    reads_near: bool
    reads_family: bool
    reads_tries: bool

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...]) -> ReflectionResult: ...
