"""Break the runtime of agents and count: `python -m tests.chaos.agents [PART …] [--times N] [--seed N]`.

Parts:
    worker     kill -9 of workers at random points of runs with tools of every kind
    stall      SIGSTOP of workers at random points of runs, and SIGCONT when others have gone on
    approvals  kill -9 between the question to a person and the decision, which comes through the API
    web        kill -9 of the web server while readers follow runs
    sleep      kill -9 of the processes in which agents sleep: what is proposed, doubled, or edited
    rules      random sets of rules and random policies, against a second reading of the rules

Each prints one JSON line, with the load of the machine before and after, and the command exits 1 where one did not
pass. PostgreSQL, the broker, workers and web server are real, and started for it.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.servers import HOME, throw_away_servers  # names the throw-away servers before Django reads its settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from erl_site.embedded import valkey  # noqa: E402


def parts(at_most: float, at_once: int) -> dict[str, tuple[int, Callable[..., dict[str, Any]]]]:
    """Return the parts with how often each breaks something."""
    from tests.chaos.agents.approval_kills import kill_before_decisions
    from tests.chaos.agents.random_rules import play_random_rules
    from tests.chaos.agents.sleep_kills import kill_sleeps_at_random
    from tests.chaos.agents.stalls import stall_workers_at_random
    from tests.chaos.agents.web_kills import kill_web_during_streams
    from tests.chaos.agents.worker_kills import kill_workers_at_random

    return {
        "worker": (200, lambda times, seed: kill_workers_at_random(kills=times, seed=seed, at_once=at_once)),
        "stall": (20, lambda times, seed: stall_workers_at_random(times=times, seed=seed)),
        "approvals": (200, lambda times, seed: kill_before_decisions(times=times, seed=seed)),
        "web": (100, lambda times, seed: kill_web_during_streams(streams=times, seed=seed)),
        "sleep": (50, lambda times, seed: kill_sleeps_at_random(kills=times, seed=seed)),
        "rules": (10_000, lambda times, seed: play_random_rules(sets=times, seed=seed, at_most_seconds=at_most)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.agents", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="*", help="One of the parts; all if left out.")
    parser.add_argument("--times", type=int, help="How often, instead of what is usual.")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--at-most", type=float, default=3_600, metavar="SECONDS", help="Of the part `rules`.")
    parser.add_argument("--at-once", type=int, default=2, metavar="RUNS", help="Of the part `worker`.")
    options = parser.parse_args()
    known = parts(options.at_most, options.at_once)
    if unknown := set(options.part) - set(known):
        parser.error(f"There is no part {sorted(unknown)[0]}.")
    call_command("migrate", verbosity=0)
    connection.ensure_connection()  # the processes to be started find the server by it
    valkey.ensure(HOME / "valkey", durable=False)
    passed = True
    for name in options.part or known:
        times, run = known[name]
        started = time.monotonic()
        result = run(options.times or times, options.seed)
        print(json.dumps(result | {"seconds": round(time.monotonic() - started, 1)}), flush=True)
        passed = passed and result["passed"]
    return 0 if passed else 1


if __name__ == "__main__":
    with throw_away_servers():
        sys.exit(main())
