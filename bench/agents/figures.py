"""What starting a run, reading it and one step of it cost, beside F: embed one task and search once."""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection

from bench.agents.loopback import Call, Loopback, Said
from bench.agents.product import OverHttp, Product
from bench.serving.corpus import Corpus
from bench.serving.floor import measure_floor
from bench.serving.processes import children, read_cpu_seconds, read_memory_mb
from bench.serving.seeding import seed_lessons
from erl_site.embedded.roles import ADMINISTRATOR
from memory.projects.models import Project
from runtime.models.runs import Run, Step
from tests.servers import HOME
from tests.stack import Stack, database_url

LESSONS = 200
STEPS = 10  # of each run
WARM_UP = 5


class Instant:
    """A model that needs no time: a message to the user in each step but the last."""

    def answer(self, request: dict[str, Any]) -> Said:
        last = request["messages"][-1]
        done = int(last["tool_call_id"].removeprefix("call-")) if last["role"] == "tool" else 0
        if done == STEPS - 1:
            return Said(text="Done.")
        return Said(calls=(Call(id=f"call-{done + 1}", name="send_message", arguments={"message": "Going on."}),))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one kind of work took, in milliseconds."""

    name: str
    times: Sequence[float]
    cpu_ms: float

    def write(self, floor_ms: float) -> str:
        """Return a line, with the median as a multiple of F."""
        ranked = sorted(self.times)
        p50, p99 = statistics.median(ranked), ranked[min(int(0.99 * len(ranked)), len(ranked) - 1)]
        return (
            f"{self.name:28} n={len(ranked):<5} p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  CPU {self.cpu_ms:6.1f} ms  "
            f"{p50 / floor_ms:5.1f} F"
        )


def measure(stack: Stack, loopback: Loopback, *, runs: int) -> list[str]:
    """Start runs while no worker is there, read them, then let a worker go on with them."""
    loopback.policies["bench"] = Instant()
    product = Product.make(OverHttp(stack.base_url), "figures")
    project = Project.objects.get(slug="figures")
    seed_lessons(project, count=LESSONS)
    corpus = Corpus(seed=2)
    tasks = [corpus.write_task() for _ in range(WARM_UP + runs)]
    agent = product.ask("POST", "/agents", {"name": "instant", "model": "bench", "tools": ["send_message"]})["id"]
    web, database = children(stack.processes["web"].pid), _database_pids()
    # The first requests of a new process import and connect.
    for task in tasks[:WARM_UP]:
        product.ask("POST", f"/agents/{agent}/runs", {"input": task})
    # While no worker is there, so that only the web process works.
    posts = _time(
        "POST …/runs (202)",
        [partial(product.ask, "POST", f"/agents/{agent}/runs", {"input": task}) for task in tasks[WARM_UP:]],
        pids=[*web, *database],
    )
    reads = _time(
        "GET /runs/{id}",
        [partial(product.ask, "GET", f"/runs/{id}") for id in Run.objects.values_list("id", flat=True)[:runs]],
        pids=[*web, *database],
    )
    url = database_url(connection.settings_dict | {"USER": ADMINISTRATOR})
    floor = measure_floor(url, project.pk, [corpus.write_task() for _ in range(20 + 200)], seconds=5)
    floor_ms = statistics.median(floor["latencies_ms"])
    stack.start_worker()
    work = _children_of_worker(stack)
    before = read_cpu_seconds([*work, *_database_pids()])
    while Run.objects.live().exists():
        time.sleep(0.2)
    cpu = (read_cpu_seconds([*work, *_database_pids()]) - before) * 1000
    steps = _time_steps()
    resident = max(read_memory_mb([pid])[0] for pid in work)
    return [
        f"F: p50 {floor_ms:.1f} ms, CPU {floor['cpu_ms']:.1f} ms",
        posts.write(floor_ms),
        reads.write(floor_ms),
        Cost(name="one step and its call", times=steps, cpu_ms=cpu / Step.objects.count()).write(floor_ms),
        f"memory: web {max(read_memory_mb([pid])[0] for pid in web):.0f} MB, worker {resident:.0f} MB (RSS)",
    ]


def _time(name: str, asks: Sequence[Callable[[], Any]], *, pids: Sequence[int]) -> Cost:
    before, times = read_cpu_seconds(pids), []
    for ask in asks:
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1000)
    return Cost(name=name, times=times, cpu_ms=(read_cpu_seconds(pids) - before) * 1000 / len(times))


def _time_steps() -> list[float]:
    """Return the milliseconds from the beginning of each step to that of the next in its run."""
    times = []
    for run in Run.objects.all():
        # From one step's start to the next: a step and its call, with what lies between.
        begun = [*run.steps.order_by("seq").values_list("started_at", flat=True)]
        times += [(after - before).total_seconds() * 1000 for before, after in itertools.pairwise(begun)]
    return times


def _children_of_worker(stack: Stack) -> list[int]:
    return children(stack.processes["worker"].pid)


def _database_pids() -> list[int]:
    return children(int((HOME / "postgres" / "data" / "postmaster.pid").read_text().split()[0]))
