"""The kind of job that goes on with runs, and the periodic work of this app."""

from datetime import timedelta

from agents.approvals import expire_approvals
from agents.loop.execution import give_up, run_agent
from agents.models.runs import KIND
from agents.streaming.events import prune_parts
from memory.housekeeping import PeriodicWork
from reflection.jobs.kinds import JobKind

MOST_ATTEMPTS = 25  # each by a worker that died, or a model that did not answer

AGENT_RUN = JobKind(name=KIND, run=run_agent, most_attempts=MOST_ATTEMPTS, give_up=give_up, command="run_agents")
PERIODIC = (
    PeriodicWork("overdue approvals", timedelta(seconds=4), expire_approvals),
    PeriodicWork("parts of answers", timedelta(minutes=10), prune_parts),
)
