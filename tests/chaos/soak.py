"""Hours in minutes: mixed load on a web server and a worker, and whether anything grows (F24).

    python -m tests.chaos.soak [--minutes 20] [--clients 2]

Prints one JSON line: requests, answers by status, and for each process its memory in each tenth of the time and the
slope of the second half in MB a minute; connections of the database and locks held at the start and at the end of that.
Exits 1 where an answer was 5xx, or, in five minutes or more, memory grows by 1 MB a minute or there are more
connections or locks.
"""

import argparse
import http.client
import json
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from tests.servers import HOME, throw_away_servers  # names the throw-away servers before Django reads its settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

import numpy as np  # noqa: E402
import psutil  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from erl_site.embedded import valkey  # noqa: E402
from memory.projects.api_keys import create_api_key  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from tests.stack import Stack, database_url  # noqa: E402

EVERY_SECONDS = 5.0
PAUSE_SECONDS = 0.1  # of each client after a run: the load is to last, not to fill the machine
JUDGED_MINUTES = 5.0  # in less than that, what is loaded once looks like growth
MOST_MB_A_MINUTE = 1.0
MEMORY = ("web", "worker", "worker_child")
MORE_MB = 20  # that a child of the worker may have more in the end than in the middle
MORE = 3  # connections or locks more at the end than after the warm-up
STEPS = [{"thought": "look", "action": {"name": "cancel", "arguments": {}}, "observation": "", "error": "refused"}]


class Client(threading.Thread):
    """Records runs and asks for lessons, one after the other."""

    def __init__(self, port: int, token: str, until: float) -> None:
        super().__init__(daemon=True)
        self.port, self.token, self.until = port, token, until
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
        there = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        number = 0
        while time.monotonic() < self.until:
            number += 1
            task = f"Cancel reservation {self.name} {number}"
            calls: list[tuple[str, str, dict[str, Any] | None]] = [
                ("POST", "/api/v1/retrieve", {"task": task}),
                ("POST", "/api/v1/trajectories", {"task": task, "outcome": "failure", "steps": STEPS}),
                ("GET", "/api/v1/trajectories?limit=5", None),
            ]
            for method, path, body in calls:
                there.request(method, path, json.dumps(body) if body else None, headers)
                answer = there.getresponse()
                answer.read()
                self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            time.sleep(PAUSE_SECONDS)
        there.close()


def measure(stack: Stack) -> dict[str, float]:
    """Return resident memory in MB, and what the database holds.

    Of the worker its main process, and the largest of the children, which are replaced after so many tasks each.
    """
    web, worker = (psutil.Process(stack.processes[name].pid) for name in ("web", "worker"))
    found = {
        "web": sum(map(_megabytes, [web, *web.children(recursive=True)])),
        "worker": _megabytes(worker),
        "worker_child": max(map(_megabytes, worker.children(recursive=True)), default=0.0),
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        found["connections"] = cursor.fetchone()[0]
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        found["advisory_locks"] = cursor.fetchone()[0]
    return found


def _megabytes(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):  # a child that was replaced just now
        return float(process.memory_info().rss) / 1e6
    return 0.0


def soak(*, minutes: float, clients: int) -> dict[str, Any]:
    """Load the product for so long and return what was measured."""
    call_command("migrate", verbosity=0)
    valkey.ensure(HOME / "valkey", durable=False)
    project = Project.objects.create(slug="soak", name="Soak")
    token = create_api_key(project, client="soak").token
    environment = {
        "DATABASE_URL": database_url(connection.settings_dict),
        "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
        "ERL_RATE_LIMITS": "",
    }
    stack = Stack(home=HOME, environment=environment)
    try:
        stack.start_web()
        stack.start_worker()
        stack.start_beat()
        started = time.monotonic()
        at_work = [Client(stack.port, token, started + 60 * minutes) for _ in range(clients)]
        for client in at_work:
            client.start()
        samples: list[tuple[float, dict[str, float]]] = []
        while any(client.is_alive() for client in at_work):
            time.sleep(EVERY_SECONDS)
            samples.append(((time.monotonic() - started) / 60, measure(stack)))
    finally:
        stack.kill_all()
    warm = samples[len(samples) // 2 :]  # what is loaded once, and caches that fill, have done so in the first half
    statuses: dict[int, int] = {}
    for client in at_work:
        for status, count in client.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    times = np.array([at for at, _ in warm])
    slopes = {
        name: round(float(np.polyfit(times, [sample[name] for _, sample in warm], 1)[0]), 3)
        for name in ("web", "worker")
    }
    return {
        "fault": "F24",
        "minutes": minutes,
        "requests": sum(statuses.values()),
        "statuses": statuses,
        "mb_by_tenths": {name: _by_tenths([sample[name] for _, sample in samples]) for name in MEMORY},
        "mb_a_minute": slopes,
        "connections": [warm[0][1]["connections"], warm[-1][1]["connections"]],
        "advisory_locks": [warm[0][1]["advisory_locks"], warm[-1][1]["advisory_locks"]],
        "load": [round(each, 1) for each in os.getloadavg()],
    }


def _by_tenths(values: list[float]) -> list[int]:
    """Return the mean of each tenth of the time."""
    return [round(float(np.mean(each))) for each in np.array_split(np.array(values), 10) if len(each)]


def find_faults(result: dict[str, Any]) -> list[str]:
    """Say what is wrong with a soak."""
    found = [f"answers {status}" for status in result["statuses"] if status >= 500]
    if result["minutes"] < JUDGED_MINUTES:
        return found
    found += [f"{name} grows" for name, slope in result["mb_a_minute"].items() if slope >= MOST_MB_A_MINUTE]
    tenths = result["mb_by_tenths"]["worker_child"]
    found += ["children of the worker grow"] if max(tenths[5:]) > max(tenths[:5]) + MORE_MB else []
    ends = {name: result[name] for name in ("connections", "advisory_locks")}
    return found + [f"more {name}" for name, (first, last) in ends.items() if last > first + MORE]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=2)
    options = parser.parse_args()
    with throw_away_servers():
        result = soak(minutes=options.minutes, clients=options.clients)
    print(json.dumps(result))
    return 1 if find_faults(result) else 0


if __name__ == "__main__":
    sys.exit(main())
