"""Experiments on simulated traffic through the running API: `python -m bench.experiments`.

Starts the product as a process on a database of its own. Every unit asks `POST /retrieve` under a session of its own,
and its run is recorded with `POST /trajectories`; whether it succeeds is drawn with the rate of the arm that the answer
names. Looks are `POST /experiments/N/looks`. This process calls nothing of the product after the set-up; only for the
broken splitter it reads the salt from the database.

    --part equal      experiments without an effect, looked at every few runs: how many end with a verdict
    --part benefit    +10 points at .5: how many are found within the planned units
    --part harm       −20 points: after how many canary units each is rolled back
    --part equal-canary   no effect at a canary of 20 %: how many are rolled back
    --part splitter   12 % in place of 10 %: after how many units the alarm comes
    --part missing    outcomes missing and late in one arm

The direct simulation of the same tests at full size is bench/sequential_figures.py.
"""

import argparse
import hashlib
import os
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import httpx

import tests.servers  # servers of its own

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402

from bench.retrieval_quality import scratch_database  # noqa: E402
from erl_site.embedded import roles  # noqa: E402
from evaluation.sequential import FIRST_GUARD  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from memory.releases.models import Deployment  # noqa: E402
from tests.factories import bearer, make_api_key, make_heuristic, make_project  # noqa: E402
from tests.stack import Stack, database_url  # noqa: E402

TASK = "Cancel reservation EHGLP3 and refund the fare"
SUCCESS_ONLY = [{"metric": "success"}]


class Serving(Protocol):
    """What answers requests: the product as a process, or a server inside a test."""

    @property
    def base_url(self) -> str: ...


@dataclass(kw_only=True)
class Client:
    """One project behind the API: a stable release, a release to try, and an experiment."""

    http: httpx.Client
    seed: int
    base: float = 0.5
    lift: float = 0.0
    lost: float = 0.0  # share of the candidate's runs that are never reported
    random: Random = field(init=False)
    exposed: dict[str, int] = field(default_factory=lambda: {"stable": 0, "candidate": 0, "holdout": 0})

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, f"/api/v1{path}", json=body)
        if answer.status_code >= 300:
            raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json()

    def start(self, *, share: float, **plan: Any) -> None:
        """Try the second release on a share of the units."""
        self.call("POST", "/deployment/canary", {"release": 2, "percent": 100 * share})
        self.call("POST", "/experiments", {"release": "2", "steps": [], "guardrails": SUCCESS_ONLY, **plan})

    def send(self, *, session: str = "") -> str:
        """Ask and report as one unit; return the arm."""
        # Each unit has a session of its own, since the arm is drawn from it.
        session = session or f"{self.seed}-{secrets.token_hex(8)}"
        answer = self.call("POST", "/retrieve", {"task": TASK, "session": session, "top_k": 1})
        arm = str(answer["arm"])
        self.exposed[arm] += 1
        # An agent that dies before it reports.
        if arm == "candidate" and self.random.random() < self.lost:
            return arm
        rate = self.base + self.lift * (arm == "candidate")
        run = {
            "task": TASK,
            "retrieval_id": answer["retrieval_id"],
            "outcome": "success" if self.random.random() < rate else "failure",
            "outcome_source": "test",
            "steps": [],
            "reflect": False,
        }
        self.call("POST", "/trajectories", run)
        return arm

    def can_fire(self) -> bool:
        """Say whether each arm has the units that a guardrail needs. Looks before that find nothing and are spared."""
        return min(self.exposed["stable"], self.exposed["candidate"]) >= FIRST_GUARD

    def look(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("POST", "/experiments/1/looks")
        return answer

    def read(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("GET", "/experiments/1")
        return answer

    def run(self, *, units: int, every: int) -> dict[str, Any]:
        """Send units and look every few, until the experiment has ended or all are sent; return it."""
        for number in range(1, units + 1):
            self.send()
            if number % every == 0:
                look = self.look()
                if look["verdict"] not in ("continue", "worse"):
                    break
        return self.read()


@contextmanager
def running_product() -> Iterator[Stack]:
    """Yield a web server on a scratch database."""
    with scratch_database(patient=False):
        with connection.cursor() as cursor:
            cursor.execute("SELECT memory_grant_application(%s)", [roles.APPLICATION])
        url = database_url(connection.settings_dict | {"USER": roles.APPLICATION})
        stack = Stack(
            home=tests.servers.HOME, environment={"DATABASE_URL": url, "CELERY_BROKER_URL": settings.CELERY_BROKER_URL}
        )
        try:
            stack.start_web()
            yield stack
        finally:
            stack.kill_all()


def make_client(stack: Serving, seed: int, **traffic: Any) -> Client:
    """Set up a project with two releases, through the API as far as it goes."""
    project = make_project()
    Project.objects.filter(pk=project.pk).update(reflect_on_record=False)
    make_heuristic(project=project, status="approved")
    headers = bearer(make_api_key(project=project).token)
    client = Client(http=httpx.Client(base_url=stack.base_url, headers=headers, timeout=60), seed=seed, **traffic)
    client.call("PATCH", "/deployment", {"mode": "releases"})
    make_heuristic(project=project, status="approved")
    client.call("POST", "/releases")
    return client


def repeat(stack: Serving, number: int, work: Callable[[Client], Any], **traffic: Any) -> list[Any]:
    """Do the same in several projects, four at a time, and say on the error stream how each went."""
    clients = [make_client(stack, seed, **traffic) for seed in range(number)]

    def do(client: Client) -> Any:
        # Each thread has a connection of its own, and closes it.
        with closing(client.http), closing(connection):
            results = work(client)
        print(f"  {client.seed}: {results}", file=sys.stderr, flush=True)
        return results

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(do, clients))


def equal(stack: Serving, number: int, units: int) -> str:
    """Count verdicts where there is nothing to find."""

    def work(client: Client) -> str:
        client.start(share=0.5, max_units=units)
        return str(client.run(units=units, every=1)["conclusion"])

    results = repeat(stack, number, work)
    false = sum(result not in ("no_benefit", "") for result in results)
    return f"equal arms, {units:,} units, a look after every run: {false} of {number} ended with a false verdict"


def benefit(stack: Serving, number: int, units: int) -> str:
    """Count how many benefits are found within 1.6 times the planned size."""

    def work(client: Client) -> tuple[str, int]:
        client.start(share=0.5, max_units=units)
        # 19 more, so that the last look comes after all the units that were planned.
        ended = client.run(units=units + 19, every=20)
        last = ended["last_look"]
        return ended["conclusion"], last["control_units"] + last["treated_units"]

    results = repeat(stack, number, work, lift=0.1)
    better = [units for conclusion, units in results if conclusion == "better"]
    return (
        f"+10 points at .5, at most {units:,} units, a look every 20 runs: {len(better)} of {number} found, "
        f"after {statistics.median(better or [0]):,.0f} units (median)"
    )


def harm(stack: Serving, number: int, units: int) -> str:
    """Count the canary units until the roll-back."""

    def work(client: Client) -> tuple[str, int]:
        client.start(share=0.2, max_units=units)
        for _ in range(units):
            if client.send() == "candidate" and client.can_fire() and client.look()["verdict"] == "roll_back":
                deployment = client.call("GET", "/deployment")
                event = deployment["events"][0]
                return f"{event['kind']} by {event['made_by']}", client.exposed["candidate"]
        return "not rolled back", client.exposed["candidate"]

    results = repeat(stack, number, work, lift=-0.2)
    canary = sorted(treated for _, treated in results)
    ways = {way for way, _ in results}
    p95 = canary[min(round(0.95 * len(canary)), len(canary) - 1)]
    return (
        f"−20 points at .5, canary of 20 %, a look after every canary unit: {ways}, after "
        f"{statistics.median(canary):,.0f} canary units (median), {p95:,} (95th percentile), {canary[-1]:,} (most)"
    )


def equal_canary(stack: Serving, number: int, units: int) -> str:
    """Count false roll-backs."""

    def work(client: Client) -> str:
        client.start(share=0.2, max_units=units)
        for _ in range(units):
            if client.send() == "candidate" and client.can_fire() and client.look()["verdict"] == "roll_back":
                return "roll_back"
        return ""

    results = repeat(stack, number, work)
    return (
        f"equal canary of 20 %, {units:,} units, a look after every canary unit: {results.count('roll_back')} of "
        f"{number} rolled back"
    )


def splitter(stack: Serving, number: int, units: int) -> str:
    """Break the splitter from outside: some sessions that would get the stable release never ask."""

    def work(client: Client) -> int:
        client.start(share=0.1, max_units=units)
        deployment = Deployment.objects.get(candidate_id=client.call("GET", "/releases/2")["id"])
        while (sent := sum(client.exposed.values())) < units:
            session = f"{client.seed}-{secrets.token_hex(8)}"
            if (
                not is_candidate(deployment.canary_salt, str(deployment.pk), session)
                and client.random.random() < BROKEN
            ):
                continue
            client.send(session=session)
            if sent % 200 == 0 and client.look()["verdict"] == "invalid":
                return sent + 1
        return 0

    results = repeat(stack, number, work)
    return f"12 % in place of 10 %, a look every 200 units: alarm after {', '.join(f'{n:,}' for n in results)} units"


# Of the stable units this share is lost before it asks, which turns 10 % into 12 %.
BROKEN = 1 - (0.1 / 0.12 - 0.1) / 0.9


def is_candidate(salt: str, deployment: str, session: str) -> bool:
    """Return the arm of a session at 10 %, by the published hash, as something in front of the API could."""
    digest = hashlib.sha256(f"{salt}:{deployment}:session:{session}".encode()).hexdigest()
    return int(digest[:8], 16) % 1000 < 100


def missing(stack: Serving, number: int, units: int) -> str:
    """Lose a fifth of the candidate's outcomes, with a look-back window of two seconds."""

    def work(client: Client) -> dict[str, Any]:
        client.start(share=0.5, max_units=5000, look_back_seconds=2)
        for _ in range(units):
            client.send()
        # Longer than the look-back window, so that pending outcomes count as missing.
        time.sleep(3)
        client.look()
        return client.read()

    results = repeat(stack, number, work, lost=0.2)
    alarmed = [result for result in results if any("missing" in alarm for alarm in result["alarms"])]
    return (
        f"a fifth of the candidate's outcomes missing, {units:,} units: {len(alarmed)} of {number} with an alarm, such "
        "as: " + (alarmed[0]["alarms"][0] if alarmed else "none")
    )


# What simulates each part, how many experiments it has, and of how many units at most.
PARTS: dict[str, tuple[Callable[[Serving, int, int], str], int, int]] = {
    "missing": (missing, 4, 300),
    "harm": (harm, 40, 5000),
    "equal-canary": (equal_canary, 20, 500),
    "equal": (equal, 20, 300),
    "benefit": (benefit, 10, 1242),
    "splitter": (splitter, 4, 100_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--number", type=int, help="experiments of each part; default: what each part says")
    parser.add_argument("--units", type=int, help="most units of each experiment; default: what each part says")
    options = parser.parse_args()
    with running_product() as stack:
        for name in options.part or PARTS:
            simulate, number, units = PARTS[name]
            start = time.perf_counter()
            report = simulate(stack, options.number or number, options.units or units)
            print(f"{report} ({time.perf_counter() - start:.0f} s, load {os.getloadavg()[0]:.1f})", flush=True)


if __name__ == "__main__":
    main()
