"""Send every run of a folder through the HTTP API and have a real worker reflect on them.

`python -m bench.full_import --data DIR` starts a throw-away database, broker, web server and worker, posts every
line of DIR/*_trajectories/trajectories.jsonl, waits for the reflections, posts everything again, and prints the counts
and times as JSON. Exits with 1 where a count is not as it should be.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HOME = Path(tempfile.mkdtemp(prefix="erl-bench-")).resolve()
os.environ |= {
    "ERL_HOME": str(HOME),
    "TEST_EMBEDDED_DURABLE": "0",
    "ERL_ENV_FILE": os.devnull,
    "ERL_REFLECTOR": "rules",
    "DJANGO_SETTINGS_MODULE": "tests.settings",
}

import django  # noqa: E402
import httpx  # noqa: E402

django.setup()

from django.conf import settings  # noqa: E402

from erl_site.embedded import postgres, valkey  # noqa: E402
from tests.stack import ROOT, Stack  # noqa: E402

WAIT_SECONDS = 600.0


def load_bodies(data: Path) -> list[dict[str, Any]]:
    """Return what is posted for each line: the fields of the API, the line's id as external_id."""
    bodies = []
    for path in sorted(data.glob("*_trajectories/trajectories.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            fields = {name: run[name] for name in ("task", "steps", "outcome", "score", "metadata")}
            bodies.append({"external_id": run["id"], "outcome_source": "environment", **fields})
    return bodies


def post_all(client: httpx.Client, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """Post every run once; return how many were answered with which status, and how long it took."""
    start = time.perf_counter()
    statuses: dict[str, int] = {}
    for body in bodies:
        status = str(client.post("trajectories", json=body).status_code)
        statuses[status] = statuses.get(status, 0) + 1
    return {"statuses": statuses, "seconds": round(time.perf_counter() - start, 1)}


def count(client: httpx.Client, collection: str, **filters: str) -> int:
    """Return how many rows a list holds."""
    answer = client.get(collection, params={"limit": 1, **filters}).raise_for_status()
    return int(answer.json()["pagination"]["total"])


def count_all(client: httpx.Client) -> dict[str, int]:
    return {
        "trajectories": count(client, "trajectories"),
        "reflections": count(client, "reflections"),
        "reflections_done": count(client, "reflections", status="done"),
        "heuristics_proposed": count(client, "heuristics", status="proposed"),
    }


def wait_for_reflections(client: httpx.Client, expected: int) -> float:
    """Wait until that many reflections are done; return the seconds waited."""
    start = time.perf_counter()
    while count(client, "reflections", status="done") < expected and time.perf_counter() - start < WAIT_SECONDS:
        time.sleep(0.5)
    return round(time.perf_counter() - start, 1)


def sum_support(client: httpx.Client) -> int:
    """Return how many runs speak for the proposed lessons, all lessons together."""
    answer = client.get("heuristics", params={"limit": 100, "status": "proposed"}).raise_for_status()
    return sum(int(heuristic["support"]) for heuristic in answer.json()["results"])


def manage(*arguments: str) -> str:
    """Run a management command and return what it prints."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def run(data: Path) -> dict[str, Any]:
    """Return the figures of both rounds."""
    bodies = load_bodies(data)
    manage("migrate", "--verbosity=0")
    key = manage("create_api_key", "--project=bench", "--create-project", "--client=bench", "--scope=all", "--json")
    valkey.ensure(HOME / "valkey", durable=False)
    stack = Stack(home=HOME, environment={"CELERY_BROKER_URL": settings.CELERY_BROKER_URL})
    try:
        stack.start_web()
        stack.start_worker()
        stack.start_beat()
        headers = {"Authorization": f"Bearer {json.loads(key)['api_key']}"}
        with httpx.Client(base_url=f"{stack.base_url}/api/v1/", headers=headers, timeout=60.0) as client:
            first = post_all(client, bodies)
            waited = wait_for_reflections(client, len(bodies))
            after_first, support = count_all(client), sum_support(client)
            # The same external ids again: the API has to answer 200 and store nothing.
            second = post_all(client, bodies)
            wait_for_reflections(client, len(bodies))
            return {
                "runs": len(bodies),
                "first": first,
                "reflected_seconds_later": waited,
                "after_first": after_first,
                "support": support,
                "second": second,
                "after_second": count_all(client),
                "support_after_second": sum_support(client),
            }
    finally:
        stack.kill_all()


def is_as_it_should_be(figures: dict[str, Any]) -> bool:
    runs = figures["runs"]
    counts = figures["after_first"]
    return (
        figures["first"]["statuses"] == {"201": runs}
        and figures["second"]["statuses"] == {"200": runs}
        and (counts["trajectories"], counts["reflections"], counts["reflections_done"]) == (runs, runs, runs)
        and figures["after_second"] == counts
        and figures["support_after_second"] == figures["support"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with *_trajectories folders")
    data: Path = parser.parse_args().data.resolve()
    try:
        figures = run(data)
    finally:
        postgres.discard(HOME / "postgres")
        valkey.discard(HOME / "valkey")
        shutil.rmtree(HOME, ignore_errors=True)
    good = is_as_it_should_be(figures)
    print(json.dumps(figures | {"as_it_should_be": good}, indent=2))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
