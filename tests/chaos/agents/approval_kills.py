"""Kill workers between the question to a person and the decision, and count what was executed."""

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from memory.projects.api_keys import create_api_key
from reflection.jobs.models import Job
from runtime.models.effects import Approval, Effect
from runtime.models.runs import KIND, Run
from tests.chaos.agents.policy import one_payment
from tests.chaos.agents.scene import Scene, find_wrongs, kill_holder, load_average, scene, sleep
from tests.waiting import wait_until

RULES = ({"type": "requires_approval", "tool": "pay"},)
WHOLE_WORKER_EVERY = 50
AT_ONCE = 4  # decisions about one call at the same moment, for every tenth
LATEST_SECONDS = 0.03  # after the question was written, the worker is killed


def kill_before_decisions(*, times: int, seed: int = 0) -> dict[str, Any]:
    """Let so many calls wait, kill the worker that asked each time, decide, and return what came of it."""
    load = load_average()
    answers: list[int] = []
    kills = 0
    with scene("a", plan=one_payment, seed=seed, rules=RULES) as on:
        on.jobs.stack.start_web()
        token = create_api_key(on.project, client="desk", scopes=["approve", "run"]).token
        for number in range(times):
            effect = _wait_for_question(on.start_run())
            sleep(on, LATEST_SECONDS)
            kills += _kill_one(on, effect, is_whole=(number + 1) % WHOLE_WORKER_EVERY == 0)
            several = AT_ONCE if number % 10 == 0 else 1
            answers += decide_at_once(on.jobs.stack.port, token, effect, times=several)
        on.wait_for_ends()
        wrongs = find_wrongs(on)
        inside = Effect.objects.filter(run__agent=on.agent, tool="pay", parent__isnull=False).count()
        wrongs += [f"{case} was not paid once" for case, paid in _payments(on).items() if paid != 1]
    return {
        "part": "approvals",
        "passed": not wrongs and answers.count(200) == times and kills >= 0.9 * times,
        "wrongs": wrongs[:20],
        "calls": times,
        "inside_a_tool": inside,
        "kills": kills,
        "decisions_taken": answers.count(200),
        "decisions_refused": len(answers) - answers.count(200),
        "load": [load, load_average()],
    }


def decide_at_once(port: int, token: str, effect: Effect, *, times: int) -> list[int]:
    """Approve a call, so many times at the same moment; return the statuses of the answers."""
    body = {"decision": "approve", "arguments_sha256": effect.arguments_sha256}

    def decide(_: int) -> int:
        there = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            there.request("POST", f"/api/v1/effects/{effect.pk}/decide", json.dumps(body), headers)
            answer = there.getresponse()
            answer.read()
            return answer.status
        finally:
            there.close()

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(decide, range(times)))


def _wait_for_question(run: Run) -> Effect:
    pending = Approval.objects.filter(run=run, status="pending", about_unknown=False).select_related("effect")
    return wait_until(pending.first, seconds=60, every_seconds=0.003).effect


def _kill_one(on: Scene, effect: Effect, *, is_whole: bool) -> bool:
    """Kill the process that asked, whether it has ended its turn or not, or all of its worker."""
    job = Job.objects.filter(kind=KIND, subject=str(effect.run_id)).latest("created_at")
    if not is_whole:
        return kill_holder(job)
    worker = job.lease_owner.split("@", 1)[0]
    on.jobs.stack.kill(worker)
    on.jobs.stack.start_worker(worker)
    return True


def _payments(on: Scene) -> dict[str, int]:
    done = on.service.done
    return {case: done[f"{case}-pay"] + done[f"{case}-buy-pay"] for case in on.runs}
