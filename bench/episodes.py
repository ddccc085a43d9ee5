"""Record 2,000 episodes through the HTTP API with eight writers at once, and check the score history independently.

`python -m bench.episodes --data DIR` starts a throw-away database and web server. The episodes are every run of
DIR/*_trajectories/trajectories.jsonl, without its steps, and recorded outcomes of DIR/reflexion_runs/outcomes.jsonl up
to --episodes. One in twenty gets its outcome later, one in twenty is erased. What `GET /memory/summary` then says of
each task family and agent is compared with sums made here with fractions, without any code of ours. Exits with 1 where
a figure differs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

HOME = Path(tempfile.mkdtemp(prefix="erl-bench-")).resolve()
os.environ |= {
    "ERL_HOME": str(HOME),
    "TEST_EMBEDDED_DURABLE": "0",
    "ERL_ENV_FILE": os.devnull,
    "DJANGO_SETTINGS_MODULE": "tests.settings",
}

import django  # noqa: E402
import httpx  # noqa: E402

django.setup()

from erl_site.embedded import postgres  # noqa: E402
from tests.stack import ROOT, Stack  # noqa: E402

WRITERS = 8
LATE, ERASED = 20, 20  # one in so many


def load_episodes(data: Path, count: int) -> list[dict[str, Any]]:
    """Return what is posted for each episode."""
    episodes = []
    for path in sorted(data.glob("*_trajectories/trajectories.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            family = f"{run['metadata']['benchmark']}.{run['metadata'].get('task_id', 'all')}"
            agent, steps = run["metadata"]["agent"], len(run["steps"])
            episodes.append(_episode(family, agent, run["score"], task=run["task"], step_count=steps))
    for line in (data / "reflexion_runs" / "outcomes.jsonl").read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if "success" in run:
            episodes.append(_episode(f"{run['suite']}.{run['task_id']}", run["arm"], float(run["success"])))
    return [{**episode, "external_id": f"episode-{n}"} for n, episode in enumerate(episodes[:count])]


def _episode(family: str, agent: str, score: float, **more: Any) -> dict[str, Any]:
    fields = {"task_id": family, "agent": agent, "score": score, "outcome_source": "environment", "reflect": False}
    return {**fields, **more}


def record(client: httpx.Client, number: int, episode: dict[str, Any]) -> float | None:
    """Record one episode and what happens to it later; return the score that should count, None where it is erased."""
    # Other remainders than those of the erased ones, so that no episode is both late and erased.
    late = number % LATE == 3
    body = {**episode, "score": None} if late else episode
    run = send(client, "POST", "trajectories", body).json()
    if late:
        outcome = {"score": episode["score"], "outcome_source": "environment", "reflect": False}
        send(client, "POST", f"trajectories/{run['id']}/outcome", outcome)
    if number % ERASED == 7:
        send(client, "DELETE", f"trajectories/{run['id']}")
        return None
    return float(episode["score"])


def send(client: httpx.Client, method: str, path: str, body: Any = None) -> httpx.Response:
    """Send a request, again where the server is busy: all of them may be repeated."""
    while True:
        response = client.request(method, path, json=body)
        # Safe to repeat: each has an external id or a final effect.
        if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            return response.raise_for_status()
        time.sleep(float(response.headers.get("Retry-After", "1")))


def compare(client: httpx.Client, kept: dict[tuple[str, str], list[float]]) -> list[str]:
    """Return a line for each family and agent whose history is not what it should be."""
    faults = []
    for family, agent in kept:
        params = {"task_id": family, "agent": agent}
        shown = client.get("memory/summary", params=params).raise_for_status().json()["scores"]
        scores = kept[family, agent]
        # Exact: sums of floats depend on the order, and eight writers have none.
        mean = float(sum(map(Fraction, scores)) / len(scores))
        figures = (shown[0]["count"], round(shown[0]["mean"], 12), shown[0]["best"]) if len(shown) == 1 else None
        if figures != (len(scores), round(mean, 12), max(scores)):
            faults.append(f"{family} {agent}: {figures} is not {(len(scores), mean, max(scores))}")
    return faults


def run(data: Path, count: int) -> dict[str, Any]:
    """Return the figures."""
    episodes = load_episodes(data, count)
    manage("migrate", "--verbosity=0")
    key = manage("create_api_key", "--project=bench", "--create-project", "--client=bench", "--scope=all", "--json")
    stack = Stack(home=HOME, environment={})
    try:
        stack.start_web()
        headers = {"Authorization": f"Bearer {json.loads(key)['api_key']}"}
        with (
            httpx.Client(base_url=f"{stack.base_url}/api/v1/", headers=headers, timeout=60.0) as client,
            ThreadPoolExecutor(WRITERS) as pool,
        ):
            start = time.perf_counter()
            scores = list(pool.map(lambda pair: record(client, *pair), enumerate(episodes)))
            seconds = time.perf_counter() - start
            kept: dict[tuple[str, str], list[float]] = defaultdict(list)
            for episode, score in zip(episodes, scores, strict=True):
                if score is not None:
                    kept[episode["task_id"], episode["agent"]].append(score)
            faults = compare(client, kept)
            counts = client.get("memory/summary").raise_for_status().json()["counts"]
    finally:
        stack.kill_all()
    expected = sum(map(len, kept.values()))
    return {
        "episodes": len(episodes),
        "erased": scores.count(None),
        "families_and_agents": len(kept),
        "counted": counts["scored_episodes"],
        "seconds": round(seconds, 1),
        "load": round(os.getloadavg()[0], 1),
        "faults": faults,
        "as_it_should_be": not faults and counts["scored_episodes"] == expected,
    }


def manage(*arguments: str) -> str:
    """Run a management command and return what it prints."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the public sets")
    parser.add_argument("--episodes", type=int, default=2000, help="how many to record (2000)")
    options = parser.parse_args()
    try:
        figures = run(options.data.resolve(), options.episodes)
    finally:
        postgres.discard(HOME / "postgres")
        shutil.rmtree(HOME, ignore_errors=True)
    print(json.dumps(figures, indent=2))
    return 0 if figures["as_it_should_be"] else 1


if __name__ == "__main__":
    sys.exit(main())
