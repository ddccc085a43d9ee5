"""Let an agent work on a goal, in this process or by the workers, and print what it says."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.errors import InvalidInput, MemoryAppError
from memory.management.options import MAX_NAMED, get_project, number_up_to
from memory.projects.actors import Actor
from memory.strict_json import check_json
from reflection.jobs.models import Job
from reflection.jobs.workers import owner_name
from runtime.api.shapes import RunInput
from runtime.loop.execution import run_agent
from runtime.models.agents import Agent
from runtime.models.runs import KIND, Run, RunStatus
from runtime.runs import RunRequest, resume_run, start_run
from runtime.streaming.feed import read_events

WATCH_SECONDS = 0.2
MOST_RUNS = 1_000


class Command(BaseCommand):
    help = (
        "Let an agent work on a goal and print what it does. It works in this process, unless a worker takes the run "
        "first; Ctrl-C leaves it to the workers. Exit code: 0 where it succeeded, 1 where it failed, 2 where it waits "
        "for a person."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the agent")
        parser.add_argument("--goal", required=True, help="what it is to do")
        parser.add_argument("--project", default="", metavar="SLUG", help="needed where two projects have the agent")
        parser.add_argument(
            "--max-iterations",
            type=number_up_to(MOST_RUNS, least=1),
            default=1,
            metavar="N",
            help="most runs: one that failed is resumed",
        )
        parser.add_argument("--max-steps", type=int, metavar="N", help="steps of one run; the agent's own if left out")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = self._find(options["name"], options["project"])
        assert agent.current is not None  # every agent has one
        steps = {} if options["max_steps"] is None else {"max_steps": options["max_steps"]}
        sent = {"input": options["goal"], "limits": {**agent.current.limits, **steps}}
        by = Actor(label="command:run_agent")
        try:
            check_json(sent)
            read = RunInput.from_body(sent)
            run = start_run(agent, RunRequest(input=read.input, limits=read.limits, client="run_agent"), by=by)
        except InvalidInput as error:
            names = {"/input": "--goal", "/limits/max_steps": "--max-steps"}
            said = [f"{names.get(at, at)}: {' '.join(texts)}" for at, texts in error.fields.items()]
            raise CommandError("\n".join(said)) from error
        except MemoryAppError as error:
            raise CommandError(str(error)) from error
        self._follow(run)
        for _ in range(options["max_iterations"] - 1):
            if run.status != RunStatus.FAILED:
                break
            run = resume_run(run, by=by, limits=read.limits)
            self._follow(run)
        if run.status != RunStatus.SUCCEEDED:
            raise SystemExit(2 if run.status == RunStatus.WAITING else 1)

    def _find(self, name: str, project: str) -> Agent:
        agents = Agent.objects.filter(name=name).select_related("current", "project")
        found = list(agents.filter(project=get_project(project)) if project else agents[:2])
        if not found:
            known = ", ".join(Agent.objects.filter(archived_at=None).values_list("name", flat=True)[:MAX_NAMED])
            raise CommandError(
                f"There is no agent {name} (known: {known or 'none yet'}). Make one with POST /api/v1/agents or "
                "load_agents."
            )
        if len(found) > 1:
            raise CommandError(f"Several projects have an agent {name}. Name the project with --project.")
        return found[0]

    def _follow(self, run: Run) -> None:
        """Go on with a run and print its events until it ends or waits for a person."""
        self.stdout.write(f"Run {run.pk}")
        seen = 0
        while True:
            job = Job.objects.live().filter(kind=KIND, subject=str(run.pk)).values_list("pk", flat=True).first()
            if job is not None:
                run_agent(job, owner=owner_name())
            run.refresh_from_db()
            for event in read_events(run.pk, after=seen):
                seen = event.seq
                if line := _tell(event.kind, event.payload):
                    self.stdout.write(line)
            if run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
                return
            time.sleep(WATCH_SECONDS)


def _tell(kind: str, payload: dict[str, Any]) -> str:
    match kind:
        case "message" if payload["role"] == "assistant" and payload["content"]:
            return f"{payload['content']}"
        case "effect" if "arguments" in payload:
            return f"  {payload['tool']} {payload['arguments']}"
        case "effect" if payload.get("error"):
            return f"  {payload['tool']}: {payload['error']}"
        case "approval" if payload["status"] == "pending":
            return f"  {payload['tool']} waits for a person (effect {payload['effect']})."
        case "run" if payload.get("stop_reason"):
            return f"{payload['status']}: {payload['stop_reason']} {payload['error']}".strip()
    return ""
