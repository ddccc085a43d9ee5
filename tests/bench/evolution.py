"""What evolution promises of writes: `python -m tests.bench.evolution shadow [--times N]`, `… sleep [--times N]`.

    shadow  rehearses a change until so many calls were answered or refused, while the service that the agent's tools
            call listens; counts who knocked there
    sleep   ends the sleep of an agent at so many random points of its work (SQL statements and failpoints), as the
            death of its process would, and lets it sleep again; counts changes, and what else was touched

`manage.py evolve demo --suite bfcl --generations 5` prints the figures of an evolution itself.
"""

import argparse
import json
import os
import random
import sys
import time
from functools import partial
from typing import Any

from tests.servers import throw_away_servers  # names the throw-away servers before Django reads its settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models.functions import Now  # noqa: E402

from agents.changes.shadow import rehearse  # noqa: E402
from agents.evolution.sleep import run_sleep, send_to_sleep  # noqa: E402
from agents.models.agents import Agent  # noqa: E402
from agents.models.changes import Change  # noqa: E402
from agents.models.tools import Tool, ToolRevision  # noqa: E402
from memory.runs.models import Trajectory  # noqa: E402
from reflection.jobs.models import Job  # noqa: E402
from reflection.llm.chat import ChatAnswer, ChatRequest  # noqa: E402
from tests.agents.changing import Service, make_shop_agent, propose_refund, refund  # noqa: E402
from tests.agents.running import Script, go_on, make_run  # noqa: E402
from tests.chaos.crash import Crash, Point, crash_at  # noqa: E402

ORDERS = 20  # in the recorded run: each is read and paid back
EXTRA = 10  # writes and reads that only the candidate wants


def rehearse_often(*, calls: int) -> dict[str, Any]:
    """Rehearse until so many calls were made, and count what reached the service."""
    with Service().running() as service:
        agent = make_shop_agent(service)
        orders = [f"A{number}" for number in range(ORDERS)]
        recorded: list[tuple[str, dict[str, Any]]] = [("read_order", {"order": each}) for each in orders]
        recorded += [("pay_back", {"order": each, "amount": 150}) for each in orders]
        run = make_run(agent)
        go_on(run, Script(recorded, "Paid."))
        change = propose_refund(agent, run)
        wanted = [*recorded]
        wanted += [("notify", {"text": f"order {number}"}) for number in range(EXTRA // 2)]
        wanted += [("pay_back", {"order": "Z9", "amount": 10**number}) for number in range(EXTRA // 2)]
        random.Random(22).shuffle(wanted)
        sent, knocked = len(service.requests), service.connections
        made = refused = 0
        while made < calls:
            script = Script(wanted, [("refund_order", {"order": "A1"})], "Paid.")
            row = rehearse(change, run, partial(_ask, script), attempt=1, by="bench")
            made += row.same + row.new_writes + row.new_reads
            refused += row.new_writes
        return {
            "part": "shadow",
            "calls": made,
            "writes_refused": refused,
            "requests_sent": len(service.requests) - sent,
            "connections": service.connections - knocked,
            "passed": len(service.requests) == sent and service.connections == knocked,
        }


def _ask(script: Script, step: int, request: ChatRequest) -> ChatAnswer:
    return script.chat(request)


def kill_sleep(*, kills: int, seed: int = 22) -> dict[str, Any]:
    """Kill the sleep of agents at random points, one agent for each kill, and count what it left."""
    drawn = random.Random(seed)
    counts = {"changes": 0, "doubled": 0, "direct_edits": 0}
    with Service().running() as service:
        points = _look_on(_make_tired(service))
        for _ in range(kills):
            agent = _make_tired(service)
            before = _untouchable(agent)
            _sleep(agent, drawn.choice(points))
            _sleep(agent, None)
            Agent.objects.filter(pk=agent.pk).update(slept_at=None)
            send_to_sleep()
            _sleep(agent, None)
            changes = Change.objects.filter(agent=agent).count()
            tools = ToolRevision.objects.filter(project=agent.project, status="proposed").count()
            counts["changes"] += changes
            counts["doubled"] += max(changes - 1, 0) + max(tools - 1, 0)
            counts["direct_edits"] += _untouchable(agent) != before
    passed = counts == {"changes": kills, "doubled": 0, "direct_edits": 0}
    return {"part": "sleep", "kills": kills, "points": len(points), **counts, "passed": passed}


def _make_tired(service: Service) -> Agent:
    """Make an agent whose sleep is queued: it would propose one tool."""
    agent = make_shop_agent(service)
    Agent.objects.filter(pk=agent.pk).update(sleep_after_runs=3)
    for _ in range(3):
        refund(agent)
    ended = Trajectory.objects.filter(project=agent.project)
    ended.update(outcome="success", outcome_source="environment")
    send_to_sleep()
    return agent


def _look_on(agent: Agent) -> list[Point]:
    """Let an agent sleep undisturbed; return every point at which that could have ended."""
    with crash_at(None) as trace:
        run_sleep(Job.objects.get(kind="agent_sleep", subject=str(agent.pk)).pk, owner="bench")
    return trace.points()


def _sleep(agent: Agent, point: Point | None) -> None:
    jobs = Job.objects.filter(kind="agent_sleep", subject=str(agent.pk))
    jobs.filter(status="running").update(lease_until=Now())  # as if the lease had run out
    live = jobs.live().first()
    if live is None:
        return
    jobs.filter(status="retry").update(available_at=Now())
    try:
        with crash_at(point):
            run_sleep(live.pk, owner="bench")
    except Crash:
        connection.close()


def _untouchable(agent: Agent) -> Any:
    """Return what no sleep may touch."""
    return (
        list(Agent.objects.filter(pk=agent.pk).values_list("current_id", "changes_by", "sleep_after_runs")),
        sorted(Tool.objects.filter(project=agent.project).exclude(current=None).values_list("name", "current_id")),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.evolution", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("part", choices=["shadow", "sleep"])
    parser.add_argument("--times", type=int, help="How many calls, or kills.")
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    started = time.monotonic()
    if options.part == "shadow":
        result = rehearse_often(calls=options.times or 10_000)
    else:
        result = kill_sleep(kills=options.times or 50)
    print(json.dumps(result | {"seconds": round(time.monotonic() - started, 1)}), flush=True)
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    with throw_away_servers():
        sys.exit(main())
