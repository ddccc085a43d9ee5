"""Choose among proposals before any is stored: those that break nothing and that no other beats in every family."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from runtime.changes.proposals import ProposedChange
from runtime.changes.rehearsals import choose_runs, proposed_subject, rehearse, subject_of
from runtime.changes.trials import AskFor
from runtime.models.agents import Agent

MOST_RUNS = 6
Key = TypeVar("Key")


class Result(Protocol):
    """What came of a task."""

    @property
    def solved(self) -> bool: ...
    @property
    def steps(self) -> float: ...
    @property
    def tokens(self) -> float: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """What a candidate did with the tasks of one family."""

    tasks: int
    solved: int
    steps: float
    tokens: float


Scores = Mapping[str, Score]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What a proposal did on recorded runs, by family. `breaks` names the families in which one no longer works."""

    proposal: ProposedChange
    scores: dict[str, Score]
    breaks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The proposals to make, and those that broke something or were beaten in every family."""

    chosen: tuple[Tried, ...]
    broken: tuple[Tried, ...]
    beaten: tuple[Tried, ...]


def choose_proposals(agent: Agent, proposals: Sequence[ProposedChange], ask_for: AskFor) -> Choice:
    """Let each proposal work on recorded runs that the agent as it is can do again, and choose.

    Args:
        ask_for: returns what asks the agent's model, for the name of a rehearsal.
    """
    assert agent.current is not None  # every agent has one
    runs = [
        run
        for run in (choose_runs(agent.pk, most=MOST_RUNS) if proposals else [])
        if rehearse(subject_of(agent.current, run), run, ask_for(f"base:{run.pk}")).solved
    ]
    tried = []
    for number, proposal in enumerate(proposals):
        results = [
            (run.task_id, rehearse(proposed_subject(agent, proposal, run), run, ask_for(f"{number}:{run.pk}")))
            for run in runs
        ]
        scores = sum_up(results)
        breaks = tuple(family for family, score in scores.items() if score.solved < score.tasks)
        tried.append(Tried(proposal=proposal, scores=scores, breaks=breaks))
    sound = [candidate for candidate in tried if not candidate.breaks]
    front = find_front([(candidate, candidate.scores) for candidate in sound])
    return Choice(
        chosen=tuple(front),
        broken=tuple(candidate for candidate in tried if candidate.breaks),
        beaten=tuple(candidate for candidate in sound if candidate not in front),
    )


def sum_up(results: Iterable[tuple[str, Result]]) -> dict[str, Score]:
    """Return the scores by family; each result comes with that of its task."""
    families: dict[str, list[Result]] = defaultdict(list)
    for family, result in results:
        families[family].append(result)
    return {
        family: Score(
            tasks=len(own),
            solved=sum(attempt.solved for attempt in own),
            steps=sum(attempt.steps for attempt in own),
            tokens=sum(attempt.tokens for attempt in own),
        )
        for family, own in sorted(families.items())
    }


def find_front(candidates: Sequence[tuple[Key, Scores]]) -> list[Key]:
    """Return the candidates that no other dominates (a Pareto set over families, as in GEPA), in their order."""
    return [
        key
        for key, scores in candidates
        if not any(dominates(others, scores) for other, others in candidates if other is not key)
    ]


def dominates(one: Scores, other: Scores) -> bool:
    """Tell whether one is nowhere worse, and better in a family: in solved tasks, or in tokens."""
    pairs = [(one[family], other[family]) for family in one]
    no_worse = all(a.solved >= b.solved and a.tokens <= b.tokens for a, b in pairs)
    return no_worse and any(a.solved > b.solved or a.tokens < b.tokens for a, b in pairs)
