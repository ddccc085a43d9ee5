"""Stop workers at random points of runs until others have gone on with them, and let them continue then."""

import os
import signal
import time
from typing import Any

import psutil

from reflection.jobs.models import Job
from runtime.models.runs import Run
from tests.chaos.agents.scene import Scene, find_wrongs, load_average, place_of, scene, sleep
from tests.chaos.agents.worker_kills import AT_ONCE, LATEST_SECONDS, a_person
from tests.waiting import wait_until

LEASE_SECONDS = 3  # a process that is only stopped keeps its sign of life
LATER_SECONDS = 0.5
LONGEST_SECONDS = 150.0  # one that is stopped in a transaction keeps its rows until PostgreSQL ends it, after a minute


def stall_workers_at_random(*, times: int, seed: int = 0) -> dict[str, Any]:
    """Stop processes of workers so often and return what came of it."""
    load = load_average()
    with scene("s", seed=seed, lease_seconds=LEASE_SECONDS) as on, a_person(on) as person:
        stalls = 0
        while stalls < times:
            while on.live() < AT_ONCE:
                on.start_run()
            stalls += _stall(on)
        on.wait_for_ends()
        wrongs = find_wrongs(on)
    return {
        "part": "stall",
        "passed": not wrongs,
        "wrongs": wrongs[:20],
        "stalls": stalls,
        "runs": len(on.runs),
        "unknown": person["unknown"],
        "load": [load, load_average()],
    }


def _stall(on: Scene) -> bool:
    """Stop the process that holds a run until another has gone on with it; False where none held one."""
    seen = on.find_running()
    if seen is None:
        time.sleep(0.005)
        return False
    sleep(on, LATEST_SECONDS)
    job = Job.objects.filter(pk=seen.pk, status="running").first()
    pid = int(job.lease_owner.rsplit("/", 1)[1]) if job is not None and "/" in job.lease_owner else 0
    if job is None or not psutil.pid_exists(pid):
        return False
    os.kill(pid, signal.SIGSTOP)
    try:
        attempts, status, *_ = place_of(Run(pk=job.subject))
        if (attempts, status) != (job.attempts, "running"):  # it had just put the run aside
            return False
        wait_until(lambda: place_of(Run(pk=job.subject))[0] > attempts, seconds=LONGEST_SECONDS, every_seconds=0.05)
        sleep(on, LATER_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
    return True
