"""Evolve agents of projects: durable jobs that ask the agent's model within the budget, and end in a proposal.

A job that is killed is carried out again: answers that were paid for are in the ledger, and the same proposal is the
same change.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from evaluation.errors import EvaluationError, EvolutionRunning, EvolutionStopped
from evaluation.evolution.bfcl import BfclSuite
from evaluation.evolution.generations import Evolved, evolve
from evaluation.evolution.recorded import FEWEST_TASKS, RecordedSuite, say_too_few
from evaluation.evolution.records import Origin, keep_evolution
from evaluation.evolution.suite import EvolutionSuite, EvolutionTask, TaskOutcome, split
from evaluation.evolution.workers import OwnAgent
from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.failpoints import failpoint
from memory.projects.actors import Actor
from memory.redaction import redact_text
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.kinds import JobKind
from reflection.jobs.models import Job, JobQuerySet
from reflection.jobs.queue import claim, enqueue, finish, hold
from reflection.llm.base import Provider
from reflection.llm.calls import Ask as AskModel
from reflection.llm.calls import RememberedAsk, RememberedChat, ask_provider
from reflection.llm.registry import get_chat_provider
from runtime.changes.drafts import Read
from runtime.changes.evidence import RunCost, show_agent, sum_costs
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.changes.proposer import ask_for_candidates, may_ask, version
from runtime.changes.trials import Ask, AskFor, name_answers
from runtime.models.agents import Agent
from runtime.models.changes import Change, EvaluationRow

SUITES = {"bfcl": BfclSuite}  # those that have a demonstration
RECORDED = RecordedSuite.name
CHOICES = (RECORDED, *SUITES)
KIND = "agent_evolution"
TIME_LIMIT_SECONDS = 24 * 3600
SHOWN_FAILURES = 12
MOST_GENERATIONS = 20
MOST_SEED = 2**31 - 1
MOST_TASKS = 1_000
Find = Callable[[str], Provider]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvolutionPlan:
    """What an evolution of an agent is started with. `most` limits the tasks of each family; 0 is the suite's own."""

    agent: str
    suite: str = RECORDED
    generations: int = 5
    seed: int = 0
    most: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedEvolution:
    """An evolution that has ended, its row, and what was proposed; None where nothing passed the gate."""

    evolved: Evolved
    evolution: EvaluationRow
    change: Change | None


@transaction.atomic
def request_evolution(agent: Agent, plan: EvolutionPlan, *, by: Actor) -> Job:
    """Queue an evolution of an agent, or return the live one with the same plan. Its row gets the id of the job.

    Raises:
        EvolutionRunning: the agent evolves with another plan.
        EvaluationError: the agent is archived, or cannot work on enough tasks of the suite.
    """
    check_tasks(agent, plan, make_suite(agent, plan, _ask_nothing))
    # Of two requests at once, one waits here and sees the job of the other.
    Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    # The plan is the subject, so the same plan twice is one job.
    subject = json.dumps(asdict(plan), sort_keys=True)
    if (other := find_jobs(agent.project_id, agent=agent.pk).live().exclude(subject=subject).first()) is not None:
        raise EvolutionRunning(f"The agent {agent.name} is already evolving: {other.pk}. Wait until that has ended.")
    return enqueue(Job(kind=KIND, project_id=agent.project_id, subject=subject, requested_by=by.label))


def find_jobs(project_id: UUID, *, agent: UUID | None = None) -> JobQuerySet[Job]:
    """Return the jobs of a project's evolutions, those of one agent where it is named."""
    jobs = Job.objects.filter(project=project_id, kind=KIND)
    return jobs if agent is None else jobs.filter(subject__contains=f'"agent": "{agent}"')


def read_plan(job: Job) -> EvolutionPlan:
    """Return what an evolution was started with."""
    return EvolutionPlan(**json.loads(job.subject))


def evolve_now(agent: Agent, plan: EvolutionPlan, *, by: Actor, find: Find = get_chat_provider) -> EndedEvolution:
    """Queue an evolution and carry it out in this process.

    Raises:
        EvaluationError: it did not come to its end. Where it can be tried again, a worker does that.
    """
    # In one transaction, so that no worker is told before the job is taken here.
    with transaction.atomic():
        queued = request_evolution(agent, plan, by=by)
        job = claim(KIND, queued.pk, owner=by.label)
    if job is None:
        raise EvolutionRunning(
            f"The agent {agent.name} is already evolving with the same arguments, or is about to. Wait until that has "
            "ended."
        )
    _, ended = carry_out(job, partial(_evolve, job, find=find))
    if ended is None:
        job.refresh_from_db()
        raise EvaluationError(job.last_error or "Another worker goes on with it.")
    return ended


def check_tasks(agent: Agent, plan: EvolutionPlan, suite: EvolutionSuite) -> None:
    """Raise EvaluationError where an agent is archived, or cannot work on enough tasks of a suite."""
    if agent.archived_at is not None:
        raise EvaluationError(f"The agent {agent.name} is archived, so it does not evolve. Choose another one.")
    tasks = suite.tasks()
    sets = split(tasks, seed=plan.seed)
    enough = bool(sets.mine and sets.gate and sets.holdout)
    if plan.suite == RECORDED:
        if not enough or len(tasks) < FEWEST_TASKS:
            raise EvaluationError(say_too_few(agent, len(tasks), most=plan.most))
    elif not enough:
        raise EvaluationError(
            f"The agent {agent.name} can work on {len(tasks)} tasks of the suite {plan.suite}, too few for three sets. "
            f"Give it the tools of the suite, for example {next(iter(suite.schemas()))}."
        )


def make_suite(agent: Agent, plan: EvolutionPlan, ask_for: AskFor, *, until: datetime | None = None) -> EvolutionSuite:
    """Return the suite of a plan, on whose tasks the agent works.

    Args:
        until: runs that were recorded later are none of its tasks.
    """
    # Every agent has one.
    assert agent.current is not None
    if plan.suite == RECORDED:
        return RecordedSuite(agent, ask_for, most=plan.most, until=until)
    return SUITES[plan.suite](OwnAgent(agent.current, ask_for), most=plan.most)


def _ask_nothing(name: str) -> Ask:
    raise AssertionError(f"No model is asked here, but {name} was.")


def run_evolution(job_id: UUID | None = None, *, owner: str, find: Find = get_chat_provider) -> Outcome:
    """Claim an evolution, or the one that is due longest, and carry it out."""
    job = claim(KIND, job_id, owner=owner)
    if job is None:
        return Outcome.NOTHING
    return carry_out(job, partial(_evolve, job, find=find))[0]


def _evolve(job: Job, heartbeat: Heartbeat, *, find: Find) -> EndedEvolution | None:
    try:
        return _evolve_to_the_end(job, heartbeat, find=find)
    except (EvaluationError, MemoryAppError) as refusal:
        # The agent may have been archived meanwhile.
        raise EvolutionStopped(str(refusal)) from refusal


def _evolve_to_the_end(job: Job, heartbeat: Heartbeat, *, find: Find) -> EndedEvolution | None:
    plan = read_plan(job)
    started_at = database_now()
    agent = Agent.objects.select_related("project", "current").filter(pk=UUID(plan.agent)).first()
    if agent is None or agent.current is None:
        finish(job)
        return None
    chat = RememberedChat(job, heartbeat, provider=find(agent.current.model))
    ask_for = name_answers(chat, heartbeat)
    # By the time of the job: a second attempt has the same tasks and finds the answers that were paid for.
    suite = make_suite(agent, plan, ask_for, until=job.created_at)
    # Checked again, as runs may have been erased since.
    check_tasks(agent, plan, suite)
    thoughts: list[Read] = []
    think = partial(_think, agent, RememberedAsk(job, heartbeat, ask_model=ask_provider), thoughts)
    evolved = evolve(suite, generations=plan.generations, seed=plan.seed, think=think if may_ask() else None)
    origin = Origin(
        id=job.pk,
        suite=plan.suite,
        seed=plan.seed,
        generations=plan.generations,
        started_at=started_at,
        agent=agent,
        proposer=_describe(thoughts),
    )
    failpoint("evolution.before_end")
    with transaction.atomic():
        # The change and the end are written together, and only while the job is still ours.
        hold(job)
        change = _propose(agent, evolved, plan.suite)
        evolution = keep_evolution(evolved, origin, by=Actor(label=job.requested_by), change=change)
        finish(job)
    return EndedEvolution(evolved=evolved, evolution=evolution, change=change)


def _think(
    agent: Agent, ask: AskModel, thoughts: list[Read], mined: Sequence[tuple[EvolutionTask, TaskOutcome]]
) -> list[ProposedChange]:
    """Ask the configured model what to change, by what came of the mine set."""
    costs = [
        RunCost(family=task.family, succeeded=outcome.solved, steps=outcome.steps, tokens=outcome.tokens)
        for task, outcome in mined
    ]
    sections: dict[str, list[Any]] = {
        "THE AGENT": [show_agent(agent)],
        "FAILED RUNS": [_show_failure(task, outcome) for task, outcome in mined if not outcome.solved][:SHOWN_FAILURES],
        "COSTS BY FAMILY": sum_costs(costs),
    }
    thoughts.append(ask_for_candidates(agent, sections, ask=ask))
    return list(thoughts[-1].proposals)


def _show_failure(task: EvolutionTask, outcome: TaskOutcome) -> dict[str, Any]:
    calls = [[call.tool for call in segment] for segment in outcome.run.segments]
    return {"family": task.family, "error": redact_text(outcome.error), "calls_by_turn": calls}


def _describe(thoughts: Sequence[Read]) -> dict[str, Any]:
    """Return what is kept of the model's proposals besides the candidates themselves."""
    if not thoughts:
        return {}
    unusable = [answer for thought in thoughts for answer in thought.unusable]
    usable = sum(len(proposed.proposals) for proposed in thoughts)
    return {"prompt_version": version(), "usable": usable, "unusable": unusable}


def _propose(agent: Agent, evolved: Evolved, suite: str) -> Change | None:
    """Propose the best candidate as a change, if it is another agent and does no harm on the hold-out."""
    best, measured = evolved.archive.best(), evolved.measured
    if best.number == 0 or measured["success"]["high"] < 0:
        return None
    tokens, solved = measured["tokens"], measured["solved"]
    reason = (
        f"On {measured['tasks']} tasks of the suite {suite} that nothing was chosen by it takes {tokens['mean']:+,.0f} "
        f"tokens per task [{tokens['low']:+,.0f}, {tokens['high']:+,.0f}]. It solves {solved['after']} of them, the "
        f"agent as it is {solved['before']}."
    )
    evidence: dict[str, Any] = {"suite": suite, "candidate": best.number, "looks": evolved.gate.looks}
    if cases := [case for macro in best.macros for case in macro.recorded_cases]:
        evidence["cases"] = cases
    proposal = replace(best.proposal, reason=reason, evidence=evidence, source=Change.Source.EVOLUTION)
    return propose_change(agent, proposal, by=Actor.policy("evolution"))


AGENT_EVOLUTION = JobKind(
    name=KIND, run=run_evolution, queue=settings.ERL_EVALUATION_QUEUE, time_limit_seconds=TIME_LIMIT_SECONDS
)
