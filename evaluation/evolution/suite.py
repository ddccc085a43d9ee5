"""Tasks on which an agent evolves, in three disjoint sets for each family: mine, gate and hold-out."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.changes.proposals import ProposedChange
from runtime.changes.sequences import ObservedRun

AS_IT_IS = ProposedChange(reason="")
SHARES = (0.4, 0.3, 0.3)  # of each family: to propose from, to judge by, to measure on


@dataclass(frozen=True, kw_only=True, slots=True)
class EvolutionTask:
    """A task of a family."""

    id: str
    family: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOutcome:
    """What came of a task: whether the environment's own checker says that it is solved, and what it took."""

    solved: bool
    steps: float
    tokens: float
    run: ObservedRun
    error: str = ""


class EvolutionSuite(Protocol):
    """An environment with an agent to evolve."""

    name: str

    def tasks(self) -> Sequence[EvolutionTask]:
        """Return all tasks."""
        ...

    def schemas(self) -> dict[str, Any]:
        """Return the arguments of the agent's own tools by name."""
        ...

    def kinds(self) -> dict[str, str]:
        """Return the kind of each of the agent's own tools."""
        ...

    def work(self, task: EvolutionTask, proposal: ProposedChange, *, seed: str) -> TaskOutcome:
        """Let the agent that a proposal makes of it work on a task."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Sets:
    """The three sets. No task is in two of them."""

    mine: tuple[EvolutionTask, ...]
    gate: tuple[EvolutionTask, ...]
    holdout: tuple[EvolutionTask, ...]


def split(tasks: Sequence[EvolutionTask], *, seed: int) -> Sets:
    """Draw the sets of each family."""
    sets: tuple[list[EvolutionTask], ...] = ([], [], [])
    # By family, so that each set has tasks of every kind.
    for family in sorted({task.family for task in tasks}):
        # Sorted before it is shuffled, so that the sets do not depend on the order of the rows.
        own = sorted((task for task in tasks if task.family == family), key=lambda task: task.id)
        random.Random(f"evolution:{seed}:{family}").shuffle(own)  # noqa: S311 - repeatable by design
        first = round(len(own) * SHARES[0])
        second = first + round(len(own) * SHARES[1])
        for chosen, part in zip(sets, (own[:first], own[first:second], own[second:]), strict=True):
            chosen += part
    return Sets(mine=tuple(sets[0]), gate=tuple(sets[1]), holdout=tuple(sets[2]))
