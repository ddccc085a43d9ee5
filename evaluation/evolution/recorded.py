"""The suite `recorded`: an agent works again on the tasks of its own recorded runs, with answers from their journals.

As in shadow, nothing leaves: a call that the run did not make is refused. A task counts as solved if the agent comes to
its end and changes all that the recorded run changed.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from evaluation.evolution.suite import AS_IT_IS, EvolutionTask, TaskOutcome
from runtime.changes.journal_host import Recorded, find_kinds
from runtime.changes.proposals import ProposedChange
from runtime.changes.rehearsals import Rehearsal, find_runs, proposed_subject, rehearse, subject_of
from runtime.changes.sequences import ObservedCall, ObservedRun
from runtime.changes.trials import AskFor
from runtime.definitions.storage import find_schemas
from runtime.models.agents import Agent
from runtime.models.runs import Run
from runtime.tools.catalogue import core_tools

FEWEST_TASKS = 20  # so that the gate and the hold-out have five or more
FEWEST_OF_FAMILY = 3  # one for each set
MOST_OF_FAMILY = 50
READ_RUNS = 2_000
NO_FAMILY = "no family"


class RecordedSuite:
    """The newest runs of an agent that went well, of the families with enough of them.

    Args:
        ask_for: returns what asks the agent's model, for the name of a rehearsal.
        most: how many runs of each family, 0 for fifty.
        until: later runs are left out, so that an evolution which is carried out again has the same tasks.
    """

    name = "recorded"

    def __init__(self, agent: Agent, ask_for: AskFor, *, most: int = 0, until: datetime | None = None) -> None:
        self._agent, self._ask_for, self._until = agent, ask_for, until
        self._most = most or MOST_OF_FAMILY

    def tasks(self) -> list[EvolutionTask]:
        families: dict[str, list[EvolutionTask]] = defaultdict(list)
        for run in self._runs.values():
            family = run.task_id or NO_FAMILY
            families[family].append(EvolutionTask(id=str(run.pk), family=family))
        return [task for own in families.values() if len(own) >= FEWEST_OF_FAMILY for task in own[: self._most]]

    def schemas(self) -> dict[str, Any]:
        return find_schemas(self._agent.project, self._names)

    def kinds(self) -> dict[str, str]:
        run = next(iter(self._runs.values()))
        return find_kinds(run)

    def work(self, task: EvolutionTask, proposal: ProposedChange, *, seed: str) -> TaskOutcome:
        run = self._runs[UUID(task.id)]
        # Every agent has one.
        assert self._agent.current is not None
        if proposal == AS_IT_IS:
            subject = subject_of(self._agent.current, run)
        else:
            subject = proposed_subject(self._agent, proposal, run)
        done = rehearse(subject, run, self._ask_for(f"{seed}:{task.id}"))
        return TaskOutcome(
            solved=done.solved,
            steps=done.steps,
            tokens=done.tokens,
            run=ObservedRun(id=task.id, segments=_read_segments(done.host.served)),
            error=_find_fault(done),
        )

    @cached_property
    def _runs(self) -> dict[UUID, Run]:
        runs = find_runs(self._agent.pk)
        if self._until is not None:
            runs = runs.filter(finished_at__lt=self._until)
        return {run.pk: run for run in runs[:READ_RUNS]}

    @cached_property
    def _names(self) -> set[str]:
        # Every agent has one.
        assert self._agent.current is not None
        return {tool["name"] for tool in self._agent.current.tools if "revision" in tool}


def say_too_few(agent: Agent, tasks: int, *, most: int) -> str:
    """Return how many recorded runs an agent needs to evolve on them, and how many it has.

    Args:
        tasks: how many are left with `most` of each family.
    """
    if most:
        return (
            f"With at most {most} of each family, {tasks} recorded runs of the agent {agent.name} can be used. An "
            f"evolution needs at least {FEWEST_TASKS}, in families of {FEWEST_OF_FAMILY} or more. Raise `most`, or "
            "leave it out."
        )
    return (
        f"The agent {agent.name} has {tasks} recorded runs that can be used, and an evolution needs at least "
        f"{FEWEST_TASKS}: runs that went well, in task families of {FEWEST_OF_FAMILY} or more. Let it work first, or "
        "choose another suite."
    )


def _read_segments(served: Sequence[Recorded]) -> tuple[tuple[ObservedCall, ...], ...]:
    """Return the calls of services in a rehearsal. What failed, or is no such call, ends a segment."""
    segments: list[list[ObservedCall]] = [[]]
    for serving in served:
        if serving.error or serving.composed or serving.tool in core_tools():
            # A tool is mined from calls that follow each other, so a failure cuts the series.
            segments.append([])
        else:
            segments[-1].append(
                ObservedCall(tool=serving.tool, arguments=serving.arguments, value=serving.value, id=serving.id)
            )
    return tuple(tuple(segment) for segment in segments if segment)


def _find_fault(done: Rehearsal) -> str:
    if not done.trial.ended:
        return f"it came to no end: {done.trial.failure}" if done.trial.failure else "it came to no end"
    # A read that was left out does no harm; a change that was left out is work not done.
    left_out = sorted({call.tool for call in done.host.missing if call.kind != "pure"})
    if not left_out and not done.solved:
        return "it called none of the tools that the recorded run called"
    return f"it left out {', '.join(left_out)}" if left_out else ""
