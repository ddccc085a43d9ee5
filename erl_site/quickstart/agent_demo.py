"""Let the sample's agent work until it waits for a person. It plays a script, so no key and no network is needed."""

import time

from django.conf import settings

from erl_site.quickstart.terminal import Terminal
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.projects.models import Project
from runtime.definitions.loading import load_file
from runtime.models.agents import Agent
from runtime.models.effects import Approval, ApprovalStatus
from runtime.models.runs import Run
from runtime.runs import RunRequest, start_run

SAMPLE = settings.BASE_DIR / "runtime" / "sample_data"
DEFINITION, SCRIPT = SAMPLE / "airline.py", SAMPLE / "airline.json"
AGENT = "front-desk"
POLICY = Actor.policy("quickstart-demo")
PATIENCE_SECONDS = 20.0
_GOING_ON = (Run.Status.QUEUED, Run.Status.RUNNING)


def run_agent_demo(project: Project, *, task: str, task_id: str, terminal: Terminal) -> str | None:
    """Store the agent and let it begin with a task; a second time it begins nothing.

    Returns the path of the page below the admin that says how to go on, or None where the agent could not be stored.
    """
    with terminal.working("Agent") as words:
        try:
            load_file(project, DEFINITION.read_text(encoding="utf-8"), by=POLICY)
        except MemoryAppError as error:
            words.append(f"not stored: {error}")
            return None
        agent = Agent.objects.get(project=project, name=AGENT)
        run = agent.runs.order_by("created_at").first()
        if run is None:
            run = start_run(agent, RunRequest(input=task, task_id=task_id, client="quickstart"), by=POLICY)
            ends_at = time.monotonic() + PATIENCE_SECONDS
            while run.status in _GOING_ON and time.monotonic() < ends_at:
                time.sleep(0.05)
                run.refresh_from_db()
        waiting = Approval.objects.filter(run=run, status=ApprovalStatus.PENDING).order_by("requested_at").first()
        if waiting is None:
            words.append(f"{AGENT}, run {run.get_status_display().lower()}")
            return f"agents/run/{run.pk}/change/"
        words.append(f"{AGENT} waits for your decision after {run.steps_taken} steps")
        return f"agents/approval/{waiting.pk}/change/"
