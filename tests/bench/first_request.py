"""What the first requests of a new web process cost, and how long a killed one is missed.

    uv run python -m tests.bench.first_request [--forks 30] [--no-preload]

Starts a PostgreSQL and a Valkey of its own and gunicorn with one process. Again and again it kills the process and asks
the one that takes its place: at once, as a client does whose request was in it, and after a pause, when it has nothing
else to do. CPU is the kernel's `schedstat` of that process alone.
"""

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

HOME = Path(tempfile.mkdtemp(prefix="erl-first-"))
for name in [*os.environ]:
    if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
        del os.environ[name]
os.environ |= {"ERL_HOME": str(HOME), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "erl_site.settings"}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402

from erl_site.embedded import postgres, valkey  # noqa: E402
from memory.projects.api_keys import create_api_key  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from tests.bench.serving.processes import children, read_cpu_seconds  # noqa: E402
from tests.stack import ROOT, free_port  # noqa: E402

REQUESTS = 3
WAIT_SECONDS = 30.0
BODIES: dict[str, dict[str, Any]] = {"/api/v1/trajectories": {"reflect": False}, "/api/v1/retrieve": {}}


class Web:
    """Gunicorn with one process that may be killed."""

    def __init__(self, *, preload: bool) -> None:
        self.port = free_port()
        options = ["--config=python:erl_site.gunicorn_config", "--no-control-socket", *(["--preload"] * preload)]
        place = ["--bind", f"127.0.0.1:{self.port}", "--workers", "1", "--threads", "4"]
        command = [sys.executable, "-m", "gunicorn", "erl_site.wsgi", *options, *place]
        with (HOME / "web.log").open("ab") as log:
            self.master = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def replace(self) -> float:
        """Kill the process and return when."""
        for pid in children(self.master.pid)[1:]:
            os.kill(pid, signal.SIGKILL)
        return time.perf_counter()

    def ask(self, path: str, token: str) -> None:
        """Ask until there is an answer; the connection is new, as it is after a process has died."""
        end = time.monotonic() + WAIT_SECONDS
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        headers |= {"Idempotency-Key": str(uuid4())} if "trajectories" in path else {}
        body = json.dumps({"task": f"Find the invoice {uuid4()}.", **BODIES[path]})
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
            try:
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                if response.status in (200, 201):
                    return
                said = response.read()
            except OSError as error:
                said = repr(error).encode()
            finally:
                connection.close()
            if time.monotonic() > end:
                raise SystemExit(f"{path}: {said.decode()}")
            time.sleep(0.005)

    def read_cpu_ms(self) -> float:
        return read_cpu_seconds(children(self.master.pid)[1:]) * 1000


def measure(web: Web, path: str, token: str, *, idle_seconds: float) -> dict[str, float]:
    """Kill the process and take the times of what comes after."""
    killed_at = web.replace()
    web.ask(path, token)
    found = {"after the kill": (time.perf_counter() - killed_at) * 1000}
    web.replace()
    time.sleep(idle_seconds)
    for number in range(1, REQUESTS + 1):
        used, started = web.read_cpu_ms(), time.perf_counter()
        web.ask(path, token)
        found[f"request {number}"] = (time.perf_counter() - started) * 1000
        found[f"request {number}, CPU"] = web.read_cpu_ms() - used
    return found


def report(path: str, rows: list[dict[str, float]]) -> None:
    """Print the median and the 99th percentile of each time."""
    print(f"\n| POST {path.removeprefix('/api/v1')}, ms | p50 | p99 |\n| --- | --- | --- |")
    for name in rows[0]:
        values = sorted(row[name] for row in rows)
        print(f"| {name} | {values[len(values) // 2]:.1f} | {values[int(len(values) * 0.99)]:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--forks", type=int, default=30, help="How many processes are asked on each path.")
    parser.add_argument("--preload", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    try:
        postgres.ensure(HOME / "postgres", durable=True)
        valkey.ensure(HOME / "valkey")
        call_command("migrate", verbosity=0)
        token = create_api_key(Project.objects.create(slug="first", name="First"), client="bench").token
        web = Web(preload=options.preload)
        try:
            for path in BODIES:
                web.ask(path, token)
                idle_seconds = 0.4 if options.preload else 5.0
                report(path, [measure(web, path, token, idle_seconds=idle_seconds) for _ in range(options.forks)])
        finally:
            web.master.terminate()
            web.master.wait(30)
        print(f"\nLoad average: {os.getloadavg()[0]:.1f}.")
    finally:
        connections.close_all()
        postgres.discard(HOME / "postgres")
        valkey.discard(HOME / "valkey")
        shutil.rmtree(HOME, ignore_errors=True)


if __name__ == "__main__":
    main()
