"""What the roles of the database cost an answer: `python -m bench.roles --rounds 400`.

Asks the same questions in turn without a role, with ERL_SERVING_ROLE and with ERL_TENANT_ROLE, in one process through
the API's views, and prints the medians and the ratios to the first. Wants an idle machine; says the load.
"""

import argparse
import os
import statistics
import time

import tests.servers  # noqa: F401  servers of its own

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from django.conf import settings  # noqa: E402
from rest_framework.test import APIClient  # noqa: E402

from bench.consolidation import scratch_database  # noqa: E402
from memory.index.heuristic_vectors import embed_heuristics  # noqa: E402
from memory.projects.actors import Actor  # noqa: E402
from tests.factories import approve_as_read, bearer, make_api_key, make_heuristic, make_project  # noqa: E402

ARMS = {
    "no role": ("", ""),
    "serving role": ("erl_serving", ""),
    "tenant role": ("", "erl_tenant"),
    "both": ("erl_serving", "erl_tenant"),
}
LESSONS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--memory-mb", type=int, default=64, help="0: each search asks the database")
    options = parser.parse_args()
    with scratch_database():
        settings.ERL_RETRIEVE_MEMORY_MB, settings.ERL_RATE_LIMITS = options.memory_mb, []
        client = _make_client()
        seconds: dict[str, list[float]] = {name: [] for name in ARMS}
        for number in range(options.rounds + 20):
            # In turn, so that a machine that slows down slows all of them.
            for name, (serving, tenant) in ARMS.items():
                settings.ERL_SERVING_ROLE, settings.ERL_TENANT_ROLE = serving, tenant
                body = {"task": f"Cancel reservation {number % 20}"}
                start = time.perf_counter()
                answer = client.post("/api/v1/retrieve", body, format="json")
                # The first twenty meet cold caches and are left out.
                if number >= 20:
                    seconds[name].append(time.perf_counter() - start)
                # A role without its grants answers fast and with nothing.
                if answer.status_code != 200 or not answer.json()["items"]:
                    raise SystemExit(f"{name}: {answer.status_code} {answer.content[:300]!r}")
        first = statistics.median(seconds["no role"])
        print(
            f"load {os.getloadavg()[0]:.1f}, {options.rounds} rounds, {LESSONS} lessons, memory {options.memory_mb} MB"
        )
        for name, durations in seconds.items():
            median = statistics.median(durations)
            p99 = sorted(durations)[int(len(durations) * 0.99)]
            print(f"{name:14} median {median * 1000:6.2f} ms  p99 {p99 * 1000:6.2f} ms  ratio {median / first:.2f}")


def _make_client() -> APIClient:
    project = make_project()
    lessons = [make_heuristic(project=project, task_id=f"family-{number % 7}") for number in range(LESSONS)]
    served = [approve_as_read(lesson, by=Actor(label="user:ana")).pk for lesson in lessons]
    embed_heuristics(served)
    return APIClient(headers=bearer(make_api_key(project=project).token))


if __name__ == "__main__":
    main()
