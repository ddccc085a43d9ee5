"""Kill the processes in which agents sleep at random points, and count what each agent was left with."""

import random
import time
from functools import partial
from typing import Any

from memory.blocks.edits import NewBlock, create_block
from memory.blocks.models import Block, BlockRevision
from memory.runs.models import Trajectory
from reflection.jobs.models import Job
from runtime.changes.sleep import KIND, send_to_sleep
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.tools import Tool, ToolRevision
from tests.chaos.agents.scene import kill_holder, load_average
from tests.chaos.jobs import jobs
from tests.factories import make_project
from tests.runtime.changing import Service, make_shop_agent, refund
from tests.runtime.running import BY
from tests.waiting import wait_until

KILLS_OF_ONE = 3  # of the same sleep; a job has five attempts
LATEST_SECONDS = 0.04  # after a sleep was seen, its process is killed
SPARE_AGENTS = 4  # besides one for every second kill: some have slept before the blow


def kill_sleeps_at_random(*, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill as many sleeps, let each go on, and let each agent sleep once more; return what came of it."""
    load, dice = load_average(), random.Random(seed)
    counts = dict.fromkeys(
        ("agents", "kills", "kills_after_a_proposal", "changes", "edits_of_blocks", "doubled", "direct_edits"), 0
    )
    with Service().running() as service, jobs() as made:
        agents = [
            make_tired_agent(service) for _ in range(kills // 2 + SPARE_AGENTS)
        ]  # before a worker could do their runs
        made.stack.start_worker("sleeper")
        for agent in agents:
            if counts["kills"] >= kills:
                break
            before = untouchable(agent)
            for struck in range(2):  # the second time, nothing is new
                _put_to_bed(agent)
                while not struck and counts["kills"] < kills and (found := _strike(agent, dice)) is not None:
                    counts["kills"] += 1
                    counts["kills_after_a_proposal"] += found
                _wait_until_awake(agent)
            changes = Change.objects.filter(agent=agent).count()
            tools = ToolRevision.objects.filter(project=agent.project, status="proposed").count()
            edits = BlockRevision.objects.waiting().filter(project=agent.project).count()
            counts["agents"] += 1
            counts["changes"] += changes
            counts["edits_of_blocks"] += edits
            counts["doubled"] += sum(max(each - 1, 0) for each in (changes, tools, edits))
            counts["direct_edits"] += untouchable(agent) != before
    right = counts["changes"] == counts["edits_of_blocks"] == counts["agents"]
    passed = right and not counts["doubled"] and not counts["direct_edits"] and counts["kills"] == kills
    return {"part": "sleep", "passed": passed, **counts, "load": [load, load_average()]}


def make_tired_agent(service: Service) -> Agent:
    """Make an agent whose sleep would propose one tool, and one edit of its block."""
    project = make_project()
    block = create_block(project, NewBlock(label="human", value="Seat: 12A\nSeat: 30C"), by=BY)
    agent = make_shop_agent(service, project=project, blocks=({"label": "human", "block": str(block.pk)},))
    for _ in range(3):
        refund(agent)
    Trajectory.objects.filter(project=agent.project).update(outcome="success", outcome_source="environment")
    return agent


def untouchable(agent: Agent) -> Any:
    """Return what no sleep may touch: what agents are, which tools are in force, and what blocks say."""
    return (
        list(Agent.objects.filter(pk=agent.pk).values_list("current_id", "changes_by")),
        sorted(Tool.objects.filter(project=agent.project).exclude(current=None).values_list("name", "current_id")),
        sorted(Block.objects.filter(project=agent.project).values_list("pk", "current_id")),
    )


def _put_to_bed(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(sleep_after_runs=1, slept_at=None)
    send_to_sleep()
    Agent.objects.filter(pk=agent.pk).update(sleep_after_runs=None)


def _strike(agent: Agent, dice: random.Random) -> bool | None:
    """Kill the process in which an agent sleeps, at a random point; return whether it had proposed something.

    None where it woke up before, or was killed often enough.
    """
    jobs_of = Job.objects.filter(kind=KIND, subject=str(agent.pk))
    wait_until(lambda: jobs_of.exclude(status="queued").exists(), seconds=300, every_seconds=0.002)  # a worker starts
    job = jobs_of.order_by("-created_at").first()
    while job is not None and job.attempts <= KILLS_OF_ONE and jobs_of.live().exists():
        job.refresh_from_db()
        if job.status != "running":
            time.sleep(0.002)
            continue
        time.sleep(dice.uniform(0, LATEST_SECONDS))
        job.refresh_from_db()
        if job.status != "running" or not kill_holder(job):
            continue
        killed = job.attempts
        proposed = Change.objects.filter(agent=agent).exists()
        wait_until(partial(_is_over, job, killed), seconds=300, every_seconds=0.01)
        return proposed
    return None


def _is_over(job: Job, killed: int) -> bool:
    """Tell whether another process has taken a job over, or it was done with the blow."""
    job.refresh_from_db()
    return job.attempts > killed or job.status not in ("running", "retry", "queued")


def _wait_until_awake(agent: Agent) -> None:
    wait_until(lambda: not Job.objects.live().filter(kind=KIND, subject=str(agent.pk)).exists(), seconds=120)
