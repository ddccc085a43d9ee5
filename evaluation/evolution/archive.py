"""The candidates of an evolution: all are kept, with their scores and why they went no further."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.definitions.values import ToolDefinition
from agents.evolution.macros import Macro
from evaluation.evolution.gates import Score, Verdict
from evaluation.evolution.suite import Outcome


@dataclass(kw_only=True, slots=True)
class Candidate:
    """An agent with some tools more. `number` 0 is the agent as it was."""

    number: int
    generation: int
    macros: tuple[Macro, ...] = ()
    parent: int | None = None
    verdict: Verdict
    scores: dict[str, Score] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list, repr=False)

    @property
    def tools(self) -> list[ToolDefinition]:
        return [each.definition for each in self.macros]

    @property
    def tokens(self) -> float:
        return sum(each.tokens for each in self.scores.values())

    @property
    def steps(self) -> float:
        return sum(each.steps for each in self.scores.values())

    @property
    def solved(self) -> int:
        return sum(each.solved for each in self.scores.values())


class Archive:
    """The candidates so far. Parents are those that no other beats in every family (a Pareto set, as in GEPA)."""

    def __init__(self, first: Candidate) -> None:
        self.candidates = [first]

    def add(self, candidate: Candidate) -> None:
        self.candidates.append(candidate)

    @property
    def passed(self) -> list[Candidate]:
        return [each for each in self.candidates if each.verdict.passed]

    def pareto(self) -> list[Candidate]:
        """Return the candidates that passed and that no other dominates, the best in total first."""
        front = [one for one in self.passed if not any(_dominates(other, one) for other in self.passed)]
        return sorted(front, key=lambda each: (each.tokens, each.number))

    def best(self) -> Candidate:
        """Return the candidate that passed with the fewest tokens on the gate."""
        return min(self.passed, key=lambda each: (-each.solved, each.tokens, each.number))

    def has(self, macros: Sequence[Macro]) -> bool:
        names = {each.definition.name for each in macros}
        return any({each.definition.name for each in one.macros} == names for one in self.candidates)


def _dominates(one: Candidate, other: Candidate) -> bool:
    pairs = [(one.scores[family], other.scores[family]) for family in one.scores]
    no_worse = all(a.solved >= b.solved and a.tokens <= b.tokens for a, b in pairs)
    return no_worse and any(a.solved > b.solved or a.tokens < b.tokens for a, b in pairs)
