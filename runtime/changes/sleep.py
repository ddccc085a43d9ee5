"""Sleep: a job that looks at what an agent did since it last slept, and proposes changes. It does nothing else.

Tools are mined from calls that repeat in runs of which the environment, a test or a person said that they succeeded.
What the agent says of itself does not count. Blocks are tidied, and a language model is asked where one is configured.
A job that is killed is carried out again and proposes the same, which is the same change.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Count, F, Max, Q

from memory.blocks.models import Block
from memory.blocks.tidying import propose_tidied
from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.failpoints import failpoint
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, enqueue, finish, hold
from reflection.llm.base import Provider, ProviderError, ProviderNotConfigured
from reflection.llm.calls import RememberedAsk, RememberedChat, ask_provider
from reflection.llm.registry import get_chat_provider
from runtime.changes.journal_host import read_effect
from runtime.changes.macros import Macro, write_macro
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.changes.proposer import Thought, may_ask, think
from runtime.changes.sequences import FEWEST_RUNS, ObservedCall, ObservedRun, find_repeated
from runtime.changes.trials import name_answers
from runtime.endings import Ending
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.effects import Effect
from runtime.models.runs import Run, Step
from runtime.models.tools import ToolRevision
from runtime.tools.catalogue import core_tools

log = structlog.get_logger(__name__)

KIND = "agent_sleep"
SLEEP = Actor.policy("sleep")
READ_RUNS = 200  # the newest that went well
MOST_CHANGES = 3  # proposed in one night
IDLE = timedelta(hours=6)
MOST_OF_WINDOW = 4  # an answer may take this part of the window at most
Find = Callable[[str], Provider]
TRUSTED = (
    Trajectory.OutcomeSource.ENVIRONMENT,
    Trajectory.OutcomeSource.TEST,
    Trajectory.OutcomeSource.HUMAN,
)


def send_to_sleep() -> int:
    """Queue the sleep of agents that have run often enough, or have run and then been idle; return how many."""
    since = Q(runs__finished_at__isnull=False) & (Q(slept_at__isnull=True) | Q(runs__finished_at__gt=F("slept_at")))
    agents = Agent.objects.filter(sleep_after_runs__isnull=False, archived_at__isnull=True).annotate(
        new_runs=Count("runs", filter=since), last_run=Max("runs__finished_at", filter=since)
    )
    is_tired = Q(new_runs__gte=F("sleep_after_runs")) | Q(new_runs__gt=0, last_run__lt=database_now() - IDLE)
    tired = list(agents.filter(is_tired))
    for agent in tired:
        enqueue(Job(kind=KIND, project_id=agent.project_id, subject=str(agent.pk), requested_by=SLEEP.label))
    return len(tired)


def run_sleep(job_id: UUID | None = None, *, owner: str, find: Find = get_chat_provider) -> Outcome:
    """Claim the sleep of an agent, or the one that is due longest, and carry it out."""
    job = claim(KIND, job_id, owner=owner)
    if job is None:
        return Outcome.NOTHING
    return carry_out(job, partial(_sleep, job, find=find))[0]


def dream(agent: Agent) -> list[ProposedChange]:
    """Return what the agent's runs suggest: tools that do not exist yet, the most useful first, and a setting."""
    names = set(ToolRevision.objects.filter(project=agent.project_id).values_list("tool__name", flat=True))
    written = (write_macro(item) for item in find_repeated(observe(agent)))
    macros = [item for item in written if item is not None and item.definition.name not in names][:MOST_CHANGES]
    tuned = tune(agent)
    return [*map(_describe, macros), *([tuned] if tuned is not None else [])]


def observe(agent: Agent) -> list[ObservedRun]:
    """Return the calls of an agent's newest runs that went well, without those of ERL's own tools."""
    runs = Run.objects.filter(
        agent=agent,
        trajectory__outcome=Trajectory.Outcome.SUCCESS,
        trajectory__outcome_source__in=TRUSTED,
    )
    ids = list(runs.order_by("-created_at", "-id").values_list("pk", flat=True)[:READ_RUNS])
    effects = Effect.objects.filter(run__in=ids, parent__isnull=True).select_related("tool_revision")
    segments: dict[UUID, list[list[ObservedCall]]] = {}
    for effect in effects.order_by("run_id", "step_id", "index"):
        own = segments.setdefault(effect.run_id, [[]])
        recorded = read_effect(effect)
        if effect.status != Effect.Status.SUCCEEDED or recorded.composed or effect.tool in core_tools():
            # What failed, or is no call of a service, ends a segment.
            own.append([])
            continue
        own[-1].append(ObservedCall(tool=effect.tool, arguments=effect.arguments, value=recorded.value, id=recorded.id))
    return [
        ObservedRun(id=str(id), segments=tuple(tuple(segment) for segment in own if segment))
        for id, own in sorted(segments.items())
    ]


def tune(agent: Agent) -> ProposedChange | None:
    """Return a proposal of longer answers where several runs of what the agent is now had answers cut off."""
    current = agent.current
    assert current is not None  # of an agent that runs
    longer = min(2 * current.max_output_tokens, current.window_tokens // MOST_OF_WINDOW)
    cut = Step.objects.filter(run__agent=agent, run__revision=current, finish_reason=Ending.CUT)
    runs = sorted(map(str, cut.values_list("run_id", flat=True).distinct()))
    if len(runs) < FEWEST_RUNS or longer <= current.max_output_tokens:
        return None
    return ProposedChange(
        reason=(
            f"In {len(runs)} runs an answer was cut off at {current.max_output_tokens:,} tokens. With {longer:,} it "
            "has room to end."
        ),
        max_output_tokens=longer,
        evidence={"runs": runs[:20]},
        source=Change.Source.SLEEP,
    )


def find_blocks(agent: Agent) -> list[Block]:
    """Return the blocks that stand in an agent's prompt."""
    assert agent.current is not None  # by the caller
    ids = [entry["block"] for entry in agent.current.blocks]
    return list(Block.objects.filter(project=agent.project_id, pk__in=ids).order_by("pk"))


def _sleep(job: Job, heartbeat: Heartbeat, *, find: Find) -> None:
    agent = Agent.objects.select_related("project", "current").filter(pk=UUID(job.subject)).first()
    # Runs that end while the job goes on are looked at next time.
    began, summary = database_now(), ""
    if agent is not None and agent.current is not None and agent.archived_at is None:
        for proposal in dream(agent):
            _propose(job, heartbeat, agent, proposal)
        for block in find_blocks(agent):
            heartbeat.ensure_held()
            with transaction.atomic():
                hold(job)
                propose_tidied(block, by=SLEEP)
        thought = _think(job, heartbeat, agent, find=find)
        for proposal in thought.proposals[:MOST_CHANGES]:
            _propose(job, heartbeat, agent, proposal)
        summary = thought.said
    failpoint("sleep.before_end")
    with transaction.atomic():
        hold(job)
        Agent.objects.filter(pk=job.subject).update(slept_at=began, sleep_said=summary)
        finish(job)


def _think(job: Job, heartbeat: Heartbeat, agent: Agent, *, find: Find) -> Thought:
    """Ask the language model, if one is configured. If it cannot be asked, the rest of the job goes on."""
    assert agent.current is not None  # by the caller
    try:
        if not may_ask():
            return Thought()
        chat = RememberedChat(job, heartbeat, provider=find(agent.current.model))
        ask_for = name_answers(chat, heartbeat, "rehearse:")
        ask = RememberedAsk(job, heartbeat, ask_model=ask_provider)
        return think(agent, until=job.created_at, ask=ask, ask_for=ask_for)
    except (ProviderError, ProviderNotConfigured) as error:
        if error.transient:
            raise
        return Thought(said=f"The language model was asked in vain. {error}"[:500])


def _describe(macro: Macro) -> ProposedChange:
    reason = (
        f"{macro.repeated.runs} runs that succeeded made these {len(macro.repeated.tools)} calls one after another, "
        f"{len(macro.repeated.occurrences)} times in all: {', '.join(macro.repeated.tools)}. In one call they take "
        f"{macro.repeated.saved} steps fewer."
    )
    evidence = {"cases": macro.recorded_cases}
    return ProposedChange(reason=reason, tools=(macro.definition,), evidence=evidence, source=Change.Source.SLEEP)


def _propose(job: Job, heartbeat: Heartbeat, agent: Agent, proposal: ProposedChange) -> None:
    heartbeat.ensure_held()
    failpoint("sleep.before_proposal")
    try:
        with transaction.atomic():
            hold(job)
            propose_change(agent, proposal, by=SLEEP)
    except MemoryAppError as refusal:
        log.info("dream_not_proposed", agent=str(agent.pk), reason=type(refusal).__name__)
