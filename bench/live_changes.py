"""Changes of agents on simulated live traffic: `python -m bench.live_changes [--lift 10 -20] [--number N]`.

Starts the product as a process on a database of its own. An agent proposes a change by the API, the policy checks,
rehearses and tries it, and an experiment watches the trial. Every unit asks `POST /retrieve` under a session of its own
and reports with `POST /trajectories`; whether it succeeds is drawn with the rate of the arm that the answer names, as
in bench/experiments.py. No person promotes or rolls back: the policy does, and `GET /changes/…` says what it did.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from bench.experiments import Client, running_product  # sets Django up, with servers of its own

# isort: split
from memory.projects.models import ApiKey, Project
from runtime.changes.policy import climb
from runtime.models.agents import Agent
from runtime.models.changes import Change
from tests.factories import bearer, make_api_key, make_heuristic, make_project
from tests.runtime.changing import PROMPTED, carry_out_shadow
from tests.runtime.running import Script, go_on, make_agent, make_run

Connect = Callable[[dict[str, str]], httpx.Client]
EVERY = 50  # units between two looks; the product looks every few seconds
SCOPES = ApiKey.Scope.values
PROPOSED = {"reason": "Customers like it brief.", "system": "You answer in one sentence."}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a trial ended: the rung of the change, who moved it there, after how many runs, and how many were planned."""

    rung: str
    moved_by: str
    runs: int
    planned: int


def try_changes(connect: Connect, *, number: int, lift: float) -> list[Ended]:
    """Let so many changes of that worth climb as far as the policy lets them."""
    trials = [start_trial(connect, seed=seed, lift=lift) for seed in range(number)]
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda trial: work(*trial), trials))


def start_trial(connect: Connect, *, seed: int, lift: float, base: float = 0.5) -> tuple[Client, str]:
    """Let an agent run once, and its change climb to the trial; return the client of its project, and its id."""
    project = make_project()
    Project.objects.filter(pk=project.pk).update(reflect_on_record=False)
    make_heuristic(project=project, status="approved")
    agent = make_agent(project=project, system=PROMPTED["system"])
    go_on(make_run(agent), Script("At nine."))
    Agent.objects.filter(pk=agent.pk).update(changes_by="policy")
    headers = bearer(make_api_key(project=project, scopes=SCOPES).token)
    client = Client(http=connect(headers), seed=seed, lift=lift, base=base)
    client.call("PATCH", "/deployment", {"mode": "releases"})
    id = str(client.call("POST", "/changes", PROPOSED | {"agent": str(agent.pk)})["id"])
    climb()
    climb()
    carry_out_shadow(Change.objects.get(pk=id), "At nine.")
    climb()
    return client, id


def work(client: Client, id: str) -> Ended:
    """Send traffic until the trial has ended."""
    planned = int(client.read()["max_units"])
    while True:
        for _ in range(EVERY):
            client.send()
        client.look()
        change: dict[str, Any] = client.call("GET", f"/changes/{id}")
        if change["rung"] != "canary":
            break
    # The newest event says who moved it: a person, or the policy.
    event = client.call("GET", "/deployment")["events"][0]
    print(f"  {client.seed}: {change['rung']} after {sum(client.exposed.values())}", file=sys.stderr, flush=True)
    return Ended(rung=change["rung"], moved_by=event["made_by"], runs=sum(client.exposed.values()), planned=planned)


def describe(lift: float, ended: list[Ended]) -> str:
    """Say how the trials ended."""
    ways = sorted({f"{trial.rung} by {trial.moved_by}" for trial in ended})
    counts = ", ".join(f"{sum(f'{trial.rung} by {trial.moved_by}' == way for trial in ended)} {way}" for way in ways)
    runs = sorted(trial.runs for trial in ended)
    return (
        f"{100 * lift:+.0f} points at .5: of {len(ended)} changes {counts}; after {statistics.median(runs):,.0f} runs "
        f"(median), {runs[-1]:,} (most), of {ended[0].planned:,} planned"
    )


def _connect(base_url: str, headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=base_url, headers=headers, timeout=60)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.live_changes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lift", type=float, nargs="+", default=[10, -20], help="what a change is worth, in points")
    parser.add_argument("--number", type=int, default=10, help="changes of each worth")
    options = parser.parse_args()
    with running_product() as stack:
        connect: Connect = partial(_connect, stack.base_url)
        for points in options.lift:
            start = time.perf_counter()
            report = describe(points / 100, try_changes(connect, number=options.number, lift=points / 100))
            print(f"{report} ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
