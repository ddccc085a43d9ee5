"""The gates that a candidate passes, cheap ones first: those of the ladder, then the tasks of the gate set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.evolution.suite import EvolutionSuite, EvolutionTask, Outcome, Variant
from evaluation.reports.statistics import Estimate, paired_difference
from runtime.changes.journal_host import Recorded
from runtime.changes.replay import Case, replay_cases
from runtime.definitions.checks import find_example_faults, find_form_faults, find_type_faults
from runtime.definitions.values import ToolDefinition
from runtime.errors import Fault
from runtime.evolution.macros import Macro
from runtime.evolution.pareto import Score

REPLAYED = 20
TRIALS = 3  # of each task, with other slips


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a candidate passed, the gate that decided, and why."""

    passed: bool
    gate: str
    said: str


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

    def look(self, variant: Variant, *, seed: str) -> list[Outcome]:
        """Let a variant of the agent work on every task of the gate."""
        self.looks += 1
        return work_on(self.suite, self.tasks, variant, seed=seed)

    @property
    def is_burnt(self) -> bool:
        return self.looks >= self.most_looks

    def check(self, macro: Macro) -> Verdict | None:
        """Check a tool without the gate's tasks; None where nothing stands against it."""
        definition, schemas = macro.definition, self.suite.schemas()
        gates: list[tuple[str, Callable[[], list[Fault]]]] = [
            ("form", lambda: find_form_faults(definition)),
            ("types", lambda: find_type_faults(definition, schemas)),
            ("examples", lambda: find_example_faults(definition) if _has_examples(definition) else []),
        ]
        for gate, find_faults in gates:
            if found := find_faults():
                return Verdict(passed=False, gate=gate, said=str(found[0])[:300])
        return self._replay(macro, schemas)

    def _replay(self, macro: Macro, schemas: dict[str, Any]) -> Verdict | None:
        cases = [
            Case(arguments=arguments, calls=tuple(_record(call, self.kinds) for call in occurrence))
            for arguments, occurrence in macro.cases[:REPLAYED]
        ]
        replayed = replay_cases(macro.definition, cases, kinds=self.kinds, schemas=schemas)
        if replayed.differences:
            return Verdict(passed=False, gate="replay", said=replayed.differences[0])
        if replayed.never_called:
            return Verdict(passed=False, gate="replay", said=f"{replayed.never_called[0]} may change something.")
        return None


def judge(
    tasks: Sequence[EvolutionTask], before: Sequence[Outcome], after: Sequence[Outcome]
) -> tuple[Verdict, Estimate]:
    """Decide by the gate's tasks: what worked still works in every family, and it takes fewer tokens or solves more."""
    saved = paired_difference([each.tokens for each in after], [each.tokens for each in before])
    broken = [
        (task, now) for task, then, now in zip(tasks, before, after, strict=True) if then.solved and not now.solved
    ]
    if broken:
        families = sorted({task.family for task, _ in broken})
        said = f"{len(broken)} tasks of {', '.join(families)} no longer work: {broken[0][0].id}, {broken[0][1].error}"
        return Verdict(passed=False, gate="regression", said=said), saved
    solved = paired_difference([float(each.solved) for each in after], [float(each.solved) for each in before])
    if not (saved.high < 0 or solved.low > 0):
        said = f"{saved.mean:+,.0f} tokens a task [{saved.low:+,.0f}, {saved.high:+,.0f}]"
        return Verdict(passed=False, gate="benefit", said=said), saved
    said = f"{saved.mean:+,.0f} tokens a task [{saved.low:+,.0f}, {saved.high:+,.0f}], and what worked still works"
    return Verdict(passed=True, gate="benefit", said=said), saved


def score(tasks: Sequence[EvolutionTask], outcomes: Sequence[Outcome]) -> dict[str, Score]:
    """Return the scores by family."""
    scores = {}
    for family in sorted({task.family for task in tasks}):
        own = [each for task, each in zip(tasks, outcomes, strict=True) if task.family == family]
        scores[family] = Score(
            tasks=len(own),
            solved=sum(each.solved for each in own),
            steps=sum(each.steps for each in own),
            tokens=sum(each.tokens for each in own),
        )
    return scores


def work_on(suite: EvolutionSuite, tasks: Sequence[EvolutionTask], variant: Variant, *, seed: str) -> list[Outcome]:
    """Let a variant of the agent work on tasks, several times on each; return the means by task.

    A task counts as solved if it was each time.
    """
    return [_merge([suite.work(task, variant, seed=f"{seed}:{trial}") for trial in range(TRIALS)]) for task in tasks]


def _merge(trials: Sequence[Outcome]) -> Outcome:
    return Outcome(
        solved=all(each.solved for each in trials),
        steps=sum(each.steps for each in trials) / len(trials),
        tokens=sum(each.tokens for each in trials) / len(trials),
        run=trials[0].run,
        error=next((each.error for each in trials if each.error), ""),
    )


def _has_examples(definition: ToolDefinition) -> bool:
    """Tell whether its examples can be run: one has an answer for each tool, so none may be called twice."""
    return all(definition.source.count(f"{name}(") <= 1 for name in definition.uses)


def _record(call: Any, kinds: dict[str, str]) -> Recorded:
    return Recorded(
        id=call.id, tool=call.tool, arguments=call.arguments, kind=kinds.get(call.tool, "unsafe"), value=call.value
    )
