"""The kinds of jobs of this app."""

from reflection.jobs.kinds import JobKind
from runtime.changes.jobs import KIND as CHANGE_KIND
from runtime.changes.jobs import run_shadow
from runtime.changes.sleep import KIND as SLEEP_KIND
from runtime.changes.sleep import run_sleep
from runtime.loop.execution import give_up, run_agent
from runtime.models.runs import KIND

MOST_ATTEMPTS = 25  # each by a worker that died, or a model that did not answer

AGENT_RUN = JobKind(name=KIND, run=run_agent, most_attempts=MOST_ATTEMPTS, give_up=give_up)
AGENT_CHANGE = JobKind(name=CHANGE_KIND, run=run_shadow)
AGENT_SLEEP = JobKind(name=SLEEP_KIND, run=run_sleep)
