"""Try proposals on recorded runs before any is stored, and choose those that no other beats in every family.

As in shadow, each call is answered from the journal of its run, so nothing leaves.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reflection.llm.chat import ChatTool
from runtime.changes.journal_host import JournalHost, find_kinds, read_journal
from runtime.changes.proposals import Proposal, foresee
from runtime.changes.regression import still_works
from runtime.changes.shadow import Rehearsal, choose_runs, read_task
from runtime.changes.subjects import subject_of
from runtime.changes.trials import Ask, Subject, hold_trial
from runtime.definitions.storage import find_schemas
from runtime.evolution.pareto import Score, find_front
from runtime.models.agents import Agent, AgentRevision
from runtime.models.runs import Run

MOST_RUNS = 6
AskFor = Callable[[str], Ask]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What a proposal did on recorded runs, by family. `breaks` names the families in which one no longer works."""

    proposal: Proposal
    scores: dict[str, Score]
    breaks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The proposals to make, and those that broke something or were beaten in every family."""

    chosen: tuple[Tried, ...]
    broken: tuple[Tried, ...]
    beaten: tuple[Tried, ...]


def choose_proposals(agent: Agent, proposals: Sequence[Proposal], ask_for: AskFor) -> Choice:
    """Let each proposal work on recorded runs that the agent as it is can do again, and choose.

    Args:
        ask_for: returns what asks the agent's model, for the name of a rehearsal.
    """
    runs = [
        run
        for run in (choose_runs(agent.pk, most=MOST_RUNS) if proposals else [])
        if still_works(rehearse(subject_of(_current(agent), run), run, ask_for(f"base:{run.pk}")))
    ]
    tried = [_try(agent, each, runs, ask_for, number) for number, each in enumerate(proposals)]
    sound = [each for each in tried if not each.breaks]
    front = find_front([(each, each.scores) for each in sound])
    return Choice(
        chosen=tuple(front),
        broken=tuple(each for each in tried if each.breaks),
        beaten=tuple(each for each in sound if each not in front),
    )


def _try(agent: Agent, proposal: Proposal, runs: Sequence[Run], ask_for: AskFor, number: int) -> Tried:
    done: dict[str, list[Rehearsal]] = defaultdict(list)
    for run in runs:
        ask = ask_for(f"{number}:{run.pk}")
        done[run.task_id].append(rehearse(proposed_subject(agent, proposal, run), run, ask))
    scores = {
        family: Score(
            tasks=len(own),
            solved=sum(map(still_works, own)),
            steps=sum(each.trial.steps for each in own),
            tokens=sum(each.trial.tokens for each in own),
        )
        for family, own in sorted(done.items())
    }
    breaks = tuple(family for family, score in scores.items() if score.solved < score.tasks)
    return Tried(proposal=proposal, scores=scores, breaks=breaks)


def rehearse(subject: Subject, run: Run, ask: Ask) -> Rehearsal:
    """Let an agent work on the task of a recorded run, with answers from its journal."""
    host = JournalHost(recorded=read_journal(run), kinds=find_kinds(run))
    return Rehearsal(host=host, trial=hold_trial(subject, read_task(run), ask, host))


def proposed_subject(agent: Agent, proposal: Proposal, run: Run) -> Subject:
    """Return what an agent would be by a proposal, on the task of a recorded run."""
    current, target = _current(agent), foresee(agent, proposal)
    subject = subject_of(current, run)
    new = {each.name: each for each in proposal.tools}
    kept = tuple(tool for tool in subject.tools if tool.name not in new)
    added = tuple(
        ChatTool(name=each.name, description=each.description, parameters=dict(each.parameters))
        for each in new.values()
    )
    uses = {name for each in new.values() for name in each.uses}
    return replace(
        subject,
        head=target.system + subject.head.removeprefix(current.system),
        tools=(*kept, *added),
        sources={**subject.sources, **new},
        schemas={**subject.schemas, **find_schemas(run.project, uses)},
        rules=target.rules,
        max_output_tokens=target.output_tokens,
    )


def _current(agent: Agent) -> AgentRevision:
    assert agent.current is not None  # every agent has one
    return agent.current
