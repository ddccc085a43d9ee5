"""Agents with tools of every kind, workers to be killed, and what must hold of the rows and of the service."""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
from django.db import connection
from django.test import override_settings

from memory.passages.models import Passage
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.jobs.models import Job
from reflection.llm.models import ModelCall
from runtime.definitions.python_file import read_definitions
from runtime.definitions.storage import save_tool
from runtime.models.agents import Agent
from runtime.models.effects import Approval, Effect
from runtime.models.runs import KIND, Event, Run
from runtime.revisions import AgentSpec, create_agent
from runtime.runs import RunRequest, start_run
from runtime.tools.catalogue import pin_tools
from tests.chaos.agents.policy import NAMES, TOOLS, Plan, every_kind, model
from tests.chaos.agents.service import CountingService
from tests.chaos.jobs import Jobs, jobs, kill
from tests.factories import make_project
from tests.waiting import wait_until

BY = Actor(label="user:chaos")
WORKERS = ("one", "two")
PATIENCE_SECONDS = 60.0


@dataclass(kw_only=True)
class Scene:
    """A project with one agent, two workers of two processes, the model, and the service that counts."""

    jobs: Jobs
    service: CountingService
    agent: Agent
    plan: Plan
    name: str
    dice: random.Random
    runs: dict[str, Run] = field(default_factory=dict)  # by case

    @property
    def project(self) -> Project:
        return self.agent.project

    def start_run(self) -> Run:
        """Start the run of the next case."""
        case = f"{self.name}-{len(self.runs)}"
        run = start_run(self.agent, RunRequest(input=f"Do case {case}"), by=BY)
        self.runs[case] = run
        return run

    def live(self) -> int:
        return Run.objects.live().filter(agent=self.agent).count()

    def find_running(self) -> Job | None:
        """Return a run's job that a worker works on."""
        return Job.objects.filter(kind=KIND, status="running", project=self.project).order_by("?").first()

    def wait_for_ends(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        wait_until(lambda: not self.live(), seconds=seconds, every_seconds=0.05)


@contextmanager
def scene(
    name: str,
    *,
    plan: Plan = every_kind,
    seed: int = 0,
    workers: tuple[str, ...] = WORKERS,
    lease_seconds: int = 60,
    **spec: Any,
) -> Iterator[Scene]:
    """Set everything up, with the lease so long that only the sign of life can tell that a worker is gone."""
    hosts = {"ERL_HTTP_HOSTS": "127.0.0.1", "ERL_LOG_LEVEL": "WARNING"}
    hosts |= {"TEST_REFLECTION_LEASE_SECONDS": str(lease_seconds), "TEST_DATABASE_CONN_MAX_AGE": "600"}
    with (
        CountingService(seed=seed) as service,
        override_settings(ERL_HTTP_HOSTS=["127.0.0.1"]),
        jobs(environment=hosts, behaviour=model(plan)) as made,
    ):
        agent = make_agent(service, **spec)
        for worker in workers:
            made.stack.start_worker(worker)
        yield Scene(jobs=made, service=service, agent=agent, plan=plan, name=name, dice=random.Random(seed))


def make_agent(service: CountingService, **spec: Any) -> Agent:
    """Make an agent with a tool of each kind."""
    project = make_project()
    for definition in read_definitions(TOOLS.format(url=service.url)).tools:
        save_tool(project, definition, by=BY, approve=True)
    tools = tuple(pin_tools(project, [*NAMES, "send_message", "archival_insert"]))
    return create_agent(project, name="chaos", spec=AgentSpec(tools=tools, **spec), by=BY)


def kill_holder(job: Job) -> bool:
    """Kill the process that works on a job, or worked on it last; False where it is gone."""
    if not job.lease_owner.count("/"):
        return False
    pid = int(job.lease_owner.rsplit("/", 1)[1])
    if not psutil.pid_exists(pid):
        return False
    kill(pid)
    return True


def place_of(run: Run) -> tuple[int, str, int, str]:
    """Return the job's attempts and status, and the run's events and status, as of one moment."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT j.attempts, j.status, r.events_written, r.status FROM agents_run r JOIN reflection_job j"
            " ON j.kind = %s AND j.subject = r.id::text WHERE r.id = %s ORDER BY j.created_at DESC LIMIT 1",
            [KIND, run.pk],
        )
        attempts, status, events, run_status = cursor.fetchone()
    return attempts, status, events, run_status


def find_wrongs(on: Scene) -> list[str]:
    """Say what is wrong with the runs, the service's counts and the events, case by case. All runs have ended."""
    return [f"{case}: {wrong}" for case, run in on.runs.items() for wrong in _find_wrongs(on, case, run.pk)]


def _find_wrongs(on: Scene, case: str, run_id: Any) -> Iterator[str]:
    run = Run.objects.get(pk=run_id)
    calls = [call for turn in on.plan(case) for call in turn]
    messages = list(run.messages.order_by("seq"))
    said = [each.content for each in messages if each.is_reply]
    wanted = [arguments["message"] for name, arguments in calls if name == "send_message"] + [f"done {case}"]
    bought = [arguments["token"] for name, arguments in calls if name == "buy"]
    # A tool whose payment was said not to have happened fails there.
    wanted += [f"bought {token}" for token in bought if on.service.done[f"{token}-pay"]]
    if run.status != "succeeded":
        yield f"ended as {run.status}: {run.stop_reason} {run.error}"
    if [each.content for each in messages if each.role == "user"] != [f"Do case {case}"]:
        yield "the user's message is not there once"
    if Counter(said) != Counter(wanted):
        yield f"replies are {said}"
    asked = [call["id"] for each in messages for call in each.tool_calls]
    answered = [each.tool_call_id for each in messages if each.role == "tool"]
    if Counter(asked) != Counter(answered) or len(set(asked)) != len(calls):
        yield f"{len(calls)} calls, {len(asked)} written, {len(answered)} answered"
    yield from _find_doubled(on, calls, run)
    if sorted(Event.objects.filter(run=run).values_list("seq", flat=True)) != list(range(1, run.events_written + 1)):
        yield "numbers of events have gaps"
    if run.trajectory_id is None or Trajectory.objects.filter(pk=run.trajectory_id).count() != 1:
        yield "is no trajectory"
    if ModelCall.objects.filter(subject=f"run:{run.pk}").count() != run.steps_taken:
        yield "model calls and steps differ"
    if Approval.objects.filter(run=run, about_unknown=True).exclude(effect__kind="unsafe").exists():
        yield "unknown, and not unsafe"


def _find_doubled(on: Scene, calls: list[tuple[str, dict[str, Any]]], run: Run) -> Iterator[str]:
    for name, arguments in calls:
        if name == "archival_insert":
            if Passage.objects.filter(project=on.project, text=arguments["text"]).count() != 1:
                yield "what it kept is not there once"
            continue
        token = arguments.get("token")
        kinds: dict[str, list[Any]] = {"order": [token], "pay": [token], "buy": [f"{token}-order", f"{token}-pay"]}
        parts = kinds.get(name, [])
        for part in parts:
            is_payment = part.endswith("pay")
            # A call that was not known to have happened was said not to have: then it may be missing, never doubled.
            least = 0 if is_payment and _was_unknown(run, part) else 1
            if not least <= on.service.done[part] <= 1:
                yield f"{part} was done {on.service.done[part]} times"
            if len(on.service.keys.get(part, ())) > 1:
                yield f"{part} was sent under {len(on.service.keys[part])} ids"


def _was_unknown(run: Run, token: str) -> bool:
    effects = Effect.objects.filter(run=run, tool="pay", arguments__token=token)
    return effects.filter(approvals__about_unknown=True).exists()


def load_average() -> list[float]:
    return [round(each, 1) for each in os.getloadavg()]


def sleep(on: Scene, most_seconds: float) -> None:
    """Wait for a random time."""
    time.sleep(on.dice.uniform(0, most_seconds))
