"""Kill workers at random points of runs, and say how soon others go on and whether anything is lost or doubled."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from threading import enumerate as list_threads
from typing import Any

from django.db import connection

from reflection.jobs.models import Job
from runtime.approvals import decide_effect
from runtime.errors import AgentsError
from runtime.models.effects import Approval
from runtime.models.runs import Run
from tests.chaos.agents.scene import BY, Scene, find_wrongs, kill_holder, load_average, place_of, scene, sleep

AT_ONCE = 2  # runs that go on at the same time, unless told otherwise
LOOK_SECONDS = 0.005  # how often the rows are looked at after a kill; the time is that of the look
KILLS_OF_ONE_RUN = 8
WHOLE_WORKER_EVERY = 25  # kills
LATEST_SECONDS = 0.15  # after a job was seen running, its worker is killed
SETTLED_SECONDS = 0.3  # after which a request that a killed worker sent has arrived or never will
LONGEST_SECONDS = 60.0
RESTART = "restart-"


@dataclass(kw_only=True)
class Kills:
    """What was counted: kills, and seconds to the claim by another process and to what that committed first."""

    whole: int = 0
    after_end: int = 0
    claimed: list[float] = field(default_factory=list)
    committed: list[float] = field(default_factory=list)
    of_run: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.committed) + self.after_end


def kill_workers_at_random(*, kills: int, seed: int = 0, at_once: int = AT_ONCE) -> dict[str, Any]:
    """Kill workers so often, while this many runs go on, and return what came of it."""
    load = load_average()
    with scene("w", seed=seed) as on, a_person(on) as person:
        counted = Kills()
        while counted.count < kills:
            while on.live() < at_once:
                on.start_run()
            _strike(on, counted)
        _wait_for_restarts()
        on.wait_for_ends()
        wrongs = find_wrongs(on)
    return {
        "part": "worker",
        "passed": not wrongs,
        "wrongs": wrongs[:20],
        "kills": counted.count,
        "of_whole_workers": counted.whole,
        "runs": len(on.runs),
        "calls_at_service": on.service.requests,
        "unknown": person["unknown"],
        "unknown_that_had_happened": person["happened"],
        "ms_to_claim": figures(counted.claimed),
        "ms_to_next_commit": figures(counted.committed),
        "load": [load, load_average()],
    }


def figures(seconds: list[float]) -> dict[str, float]:
    """Return median, 95th percentile and maximum in milliseconds."""
    if not seconds:
        return {}
    ordered = sorted(1000 * each for each in seconds)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"median": round(statistics.median(ordered), 1), "p95": round(p95, 1), "max": round(ordered[-1], 1)}


@contextmanager
def a_person(on: Scene) -> Iterator[dict[str, int]]:
    """Let a person clear calls of which it is not known whether they happened, by asking the service."""
    seen, stop = {"unknown": 0, "happened": 0}, Event()

    def clear() -> None:
        pending = Approval.objects.filter(project=on.project, status="pending", about_unknown=True)
        for approval in pending.select_related("effect"):
            time.sleep(SETTLED_SECONDS)
            happened = on.service.done[approval.effect.arguments["token"]] > 0
            decision = "answer" if happened else "reject"
            answer = "It was done." if happened else ""
            sha256 = approval.arguments_sha256
            try:
                decide_effect(approval.effect, decision=decision, arguments_sha256=sha256, by=BY, answer=answer)
            except AgentsError:
                continue
            seen["unknown"] += 1
            seen["happened"] += happened

    def look() -> None:
        try:
            while not stop.wait(0.05):
                clear()
        finally:
            connection.close()

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def _strike(on: Scene, counted: Kills) -> None:
    """Kill the process that holds a run, at a random point, and wait until another has gone on with it."""
    seen = on.find_running()
    if seen is None or counted.of_run.get(seen.subject, 0) >= KILLS_OF_ONE_RUN:
        time.sleep(0.005)
        return
    sleep(on, LATEST_SECONDS)
    job = Job.objects.filter(pk=seen.pk, status="running").first()
    if job is None:
        return
    is_whole = (counted.count + 1) % WHOLE_WORKER_EVERY == 0
    if is_whole:
        worker = job.lease_owner.split("@", 1)[0]
        _kill_worker(on, worker)
        counted.whole += 1
    elif not kill_holder(job):
        return
    killed_at = time.perf_counter()
    counted.of_run[job.subject] = counted.of_run.get(job.subject, 0) + 1
    _watch(job, killed_at, counted)


def _watch(job: Job, killed_at: float, counted: Kills) -> None:
    run = Run(pk=job.subject)
    known: int | None = None
    while (now := time.perf_counter()) - killed_at < LONGEST_SECONDS:
        attempts, status, events, run_status = place_of(run)
        if known is None and attempts > job.attempts:
            counted.claimed.append(now - killed_at)
            known = events
        elif known is not None and events > known:
            counted.committed.append(now - killed_at)
            return
        elif known is None and status != "running" and run_status not in ("queued", "running"):
            counted.after_end += 1  # what it committed last was the end, or the wait for a person
            return
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"nobody went on with run {job.subject} for {LONGEST_SECONDS} seconds")


def _kill_worker(on: Scene, name: str) -> None:
    """Kill a worker with all its processes, and start it again beside what goes on."""
    stack = on.jobs.stack
    stack.kill(name)

    def start() -> None:
        try:
            stack.start_worker(name)
        finally:
            connection.close()

    Thread(target=start, daemon=True, name=RESTART + name).start()


def _restarts() -> list[Thread]:
    return [each for each in list_threads() if each.name.startswith(RESTART)]


def _wait_for_restarts() -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while _restarts() and time.monotonic() < end:
        time.sleep(0.1)
