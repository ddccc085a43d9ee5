"""The candidates of an evolution: all are kept, with their scores and why they went no further."""

from dataclasses import dataclass, field, replace

from evaluation.evolution.suite import AS_IT_IS, TaskOutcome
from runtime.changes.choice import Score, find_front
from runtime.changes.macros import Macro
from runtime.changes.proposals import ProposedChange


@dataclass(kw_only=True, slots=True)
class ArchivedCandidate:
    """An agent with some tools more, and with what a model proposed. `number` 0 is the agent as it was.

    It was tried on `parent`; `parents` has all whose tools it has. `look` says which look at the gate it was,
    `stopped_by` which check or gate stopped it.
    """

    number: int
    generation: int
    macros: tuple[Macro, ...] = ()
    draft: ProposedChange = AS_IT_IS
    parent: int | None = None
    parents: tuple[int, ...] = ()
    look: int | None = None
    stopped_by: str = ""
    said: str = ""
    scores: dict[str, Score] = field(default_factory=dict)
    outcomes: list[TaskOutcome] = field(default_factory=list, repr=False)

    @property
    def proposal(self) -> ProposedChange:
        """All that it has besides the agent as it was."""
        return replace(self.draft, tools=(*self.draft.tools, *(macro.definition for macro in self.macros)))

    @property
    def tokens(self) -> float:
        return sum(score.tokens for score in self.scores.values())

    @property
    def steps(self) -> float:
        return sum(score.steps for score in self.scores.values())

    @property
    def solved(self) -> int:
        return sum(score.solved for score in self.scores.values())


class Archive:
    """The candidates so far. Parents are those that no other beats in every family (a Pareto set, as in GEPA)."""

    def __init__(self, first: ArchivedCandidate) -> None:
        self.candidates = [first]

    @property
    def passed(self) -> list[ArchivedCandidate]:
        return [candidate for candidate in self.candidates if not candidate.stopped_by]

    def pareto(self) -> list[ArchivedCandidate]:
        """Return the candidates that passed and that no other dominates, the best in total first."""
        front = find_front([(candidate, candidate.scores) for candidate in self.passed])
        return sorted(front, key=lambda candidate: (candidate.tokens, candidate.number))

    def best(self) -> ArchivedCandidate:
        """Return the candidate that passed with the fewest tokens on the gate."""
        return min(self.passed, key=lambda candidate: (-candidate.solved, candidate.tokens, candidate.number))

    def has(self, parent: ArchivedCandidate, macro: Macro) -> bool:
        """Tell whether a parent was tried with a tool, in whatever order its tools were added."""
        # As a set: the order in which tools were added makes no other agent.
        names = {entry.definition.name for entry in (*parent.macros, macro)}
        return any(
            entry.draft == parent.draft and {member.definition.name for member in entry.macros} == names
            for entry in self.candidates
        )
