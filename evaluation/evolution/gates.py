"""The gates that a candidate passes, cheap ones first: those of the ladder, then the tasks of the gate set."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.evolution.suite import EvolutionSuite, EvolutionTask, TaskOutcome
from evaluation.reports.statistics import paired_difference
from runtime.changes.choice import Score, sum_up
from runtime.changes.journal_host import Recorded
from runtime.changes.macros import Macro
from runtime.changes.proposals import ProposedChange
from runtime.changes.replay import Case, replay_cases
from runtime.definitions.checks import find_example_faults, find_form_faults, find_type_faults
from runtime.definitions.values import ToolDefinition

REPLAYED = 20
TRIALS = 3  # of each task, with other slips
Stopped = tuple[str, str]  # the check or gate that stopped a candidate, "" where none did; and what it found
PASSED: Stopped = ("", "")


@dataclass(kw_only=True)
class Gate:
    """The gate set, and how often it was looked at. Looks are limited: each lets a little of the set leak out."""

    suite: EvolutionSuite
    tasks: Sequence[EvolutionTask]
    most_looks: int
    looks: int = 0
    kinds: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinds = self.suite.kinds()

    def look(self, proposal: ProposedChange, *, seed: str) -> list[TaskOutcome]:
        """Let a candidate work on every task of the gate."""
        self.looks += 1
        return work_on(self.suite, self.tasks, proposal, seed=seed)

    @property
    def is_burnt(self) -> bool:
        return self.looks >= self.most_looks

    def check(self, macro: Macro) -> Stopped:
        """Check a tool without the gate's tasks."""
        definition, schemas = macro.definition, self.suite.schemas()
        if faults := find_form_faults(definition):
            return "form", str(faults[0])[:300]
        if faults := find_type_faults(definition, schemas):
            return "types", str(faults[0])[:300]
        if faults := find_example_faults(definition) if _has_examples(definition) else []:
            return "examples", str(faults[0])[:300]
        cases = [
            Case(arguments=arguments, calls=tuple(_record(call, self.kinds) for call in occurrence))
            for arguments, occurrence in macro.cases[:REPLAYED]
        ]
        replayed = replay_cases(definition, cases, kinds=self.kinds, schemas=schemas)
        if replayed.differences:
            return "replay", replayed.differences[0]
        if replayed.never_called:
            return "replay", f"{replayed.never_called[0]} may change something."
        return PASSED


def judge(tasks: Sequence[EvolutionTask], before: Sequence[TaskOutcome], after: Sequence[TaskOutcome]) -> Stopped:
    """Decide by the gate's tasks: what worked still works in every family, and it takes fewer tokens or solves more."""
    broken = [
        (task, now) for task, then, now in zip(tasks, before, after, strict=True) if then.solved and not now.solved
    ]
    if broken:
        families = sorted({task.family for task, _ in broken})
        reason = f"{len(broken)} tasks of {', '.join(families)} no longer work: {broken[0][0].id}, {broken[0][1].error}"
        return "regression", reason
    saved = paired_difference([trial.tokens for trial in after], [trial.tokens for trial in before])
    solved = paired_difference([float(trial.solved) for trial in after], [float(trial.solved) for trial in before])
    reason = f"{saved.mean:+,.0f} tokens a task [{saved.low:+,.0f}, {saved.high:+,.0f}]"
    # The whole interval has to be on the good side, not the mean alone.
    if saved.high < 0 or solved.low > 0:
        return "", f"{reason}, and what worked still works"
    return "benefit", reason


def score(tasks: Sequence[EvolutionTask], outcomes: Sequence[TaskOutcome]) -> dict[str, Score]:
    """Return the scores by family."""
    return sum_up((task.family, outcome) for task, outcome in zip(tasks, outcomes, strict=True))


def work_on(
    suite: EvolutionSuite, tasks: Sequence[EvolutionTask], proposal: ProposedChange, *, seed: str
) -> list[TaskOutcome]:
    """Let a candidate work on tasks, several times on each; return the means by task.

    A task counts as solved if it was each time.
    """
    return [_merge([suite.work(task, proposal, seed=f"{seed}:{trial}") for trial in range(TRIALS)]) for task in tasks]


def _merge(trials: Sequence[TaskOutcome]) -> TaskOutcome:
    return TaskOutcome(
        # All trials, as a task that works now and then does not work.
        solved=all(trial.solved for trial in trials),
        steps=sum(played.steps for played in trials) / len(trials),
        tokens=sum(played.tokens for played in trials) / len(trials),
        run=trials[0].run,
        error=next((played.error for played in trials if played.error), ""),
    )


def _has_examples(definition: ToolDefinition) -> bool:
    """Tell whether its examples can be run: one has an answer for each tool, so none may be called twice."""
    return all(definition.source.count(f"{name}(") <= 1 for name in definition.uses)


def _record(call: Any, kinds: dict[str, str]) -> Recorded:
    return Recorded(
        id=call.id, tool=call.tool, arguments=call.arguments, kind=kinds.get(call.tool, "unsafe"), value=call.value
    )
