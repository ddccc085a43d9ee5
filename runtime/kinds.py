"""The kinds of jobs of this app, and the periodic work of this app."""

from datetime import timedelta

from memory.housekeeping import PeriodicWork
from reflection.jobs.kinds import JobKind
from runtime.approvals import expire_approvals
from runtime.changes.jobs import KIND as CHANGE_KIND
from runtime.changes.jobs import run_shadow
from runtime.changes.policy import climb
from runtime.evolution.sleep import KIND as SLEEP_KIND
from runtime.evolution.sleep import run_sleep, send_to_sleep
from runtime.loop.execution import give_up, run_agent
from runtime.models.runs import KIND
from runtime.streaming.events import prune_parts
from runtime.streaming.months import keep_event_months

MOST_ATTEMPTS = 25  # each by a worker that died, or a model that did not answer

AGENT_RUN = JobKind(name=KIND, run=run_agent, most_attempts=MOST_ATTEMPTS, give_up=give_up, command="run_agents")
AGENT_CHANGE = JobKind(name=CHANGE_KIND, run=run_shadow, command="run_agents")
AGENT_SLEEP = JobKind(name=SLEEP_KIND, run=run_sleep, command="run_agents")
PERIODIC = (
    PeriodicWork("sleep of agents", timedelta(minutes=1), send_to_sleep),
    PeriodicWork("changes of agents", timedelta(seconds=30), climb),
    PeriodicWork("overdue approvals", timedelta(seconds=4), expire_approvals),
    PeriodicWork("parts of answers", timedelta(minutes=10), prune_parts),
    PeriodicWork("months of events", timedelta(hours=1), keep_event_months),
)
