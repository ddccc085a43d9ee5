"""Start a test network, and measure how web hosts add up and what a fail-over costs.

    uv run python -m tests.cluster.measure [--hosts 1 2 4] [--seconds 10] [--cores 0.2] [--json FILE]

Hosts are network namespaces with addresses of their own: PostgreSQL, its replica (synchronous), PgBouncer where it is
installed, Valkey, HAProxy, web hosts and two workers. Each web host has a fixed share of a processor, so that four
hosts show on two cores. Needs root and Linux.

1. Web hosts: known tasks (whose vectors are cached) by three clients for each host. What counts is the requests for
   each second that web hosts were on a processor, which should not fall with the number of hosts.
2. Fail-over: two clients record runs and two ask for lessons, while PostgreSQL is killed with -9 and the replica, once
   the primary has not answered for a second, is promoted. Runs that were acknowledged are then looked for in it.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cluster.hosts import find_obstacle, is_laboratory, make_network, run_in_laboratory
from tests.waiting import wait_until

CLIENTS_PER_HOST = 3
KNOWN_TASKS = 20
WORKERS = 2


def measure_hosts(network: Any, token: str, *, count: int, options: argparse.Namespace) -> dict[str, float]:
    """Return requests a second and for each CPU-second of the first `count` web hosts."""
    from tests.cluster.load import Load

    hosts = [host for name, host in network.hosts.items() if name.startswith("web")][:count]
    load = Load(address=network.balance(hosts), token=token)
    load.start("/api/v1/retrieve", clients=CLIENTS_PER_HOST * count, make_body=make_task)
    time.sleep(options.seconds / 2)
    begun, before = time.monotonic(), [host.read_cpu_seconds() for host in hosts]
    time.sleep(options.seconds)
    ended, after = time.monotonic(), [host.read_cpu_seconds() for host in hosts]
    answers = [answer for answer in load.stop() if begun <= answer.at < ended]
    good = [answer for answer in answers if answer.status == 200]
    used = sum(after) - sum(before)
    return {
        "hosts": count,
        "requests_per_second": len(good) / (ended - begun),
        "requests_per_cpu_second": len(good) / used,
        "other_answers": len(answers) - len(good),
    }


def warm_up(address: str, token: str) -> None:
    """Let a web host meet every task, and answer some of them again."""
    from tests.cluster.load import Load

    load = Load(address=address, token=token)
    load.start("/api/v1/retrieve", clients=2, make_body=make_task)
    wait_until(lambda: len(load.answers) > 3 * KNOWN_TASKS, seconds=120)
    load.stop()


def make_task(client: int, number: int) -> dict[str, Any]:
    return {"task": f"Cancel reservation {(client + number) % KNOWN_TASKS} of a passenger"}


def make_run(client: int, number: int) -> dict[str, Any]:
    return {"task": f"Run {number} of client {client}", "outcome": "success"}


def fail_over(network: Any, primary: Any, replica: Any, token: str, *, options: argparse.Namespace) -> dict[str, Any]:
    """Kill the primary under load and promote the replica; return what clients met."""
    import psycopg

    from tests.cluster.load import Load, find_longest_gap

    hosts = [host for name, host in network.hosts.items() if name.startswith("web")]
    address = network.balance(hosts)
    writes, reads = Load(address=address, token=token), Load(address=address, token=token)
    begun = time.monotonic()
    writes.start("/api/v1/trajectories", clients=2, make_body=make_run)
    reads.start("/api/v1/retrieve", clients=2, make_body=make_task)
    time.sleep(options.seconds)
    killed_at = time.monotonic()
    primary.host.kill()
    answered_at = killed_at
    while time.monotonic() - answered_at < 1.0:  # what decides that a primary is gone
        try:
            psycopg.connect(host=primary.host.address, port=5432, user="erl", dbname="erl", connect_timeout=2).close()
            answered_at = time.monotonic()
        except psycopg.OperationalError:
            time.sleep(0.1)
    replica.run("SELECT pg_promote()")
    promoted_at = time.monotonic()
    time.sleep(options.seconds)
    written, read = writes.stop(), reads.stop()
    ended = time.monotonic()
    accepted = [answer for answer in written if answer.status == 201]
    with psycopg.connect(replica.url) as server:
        there = {task for (task,) in server.execute("SELECT task FROM memory_trajectory")}
    after = [answer for answer in read if answer.at > killed_at]
    return {
        "acknowledged": len(accepted),
        "acknowledged_and_lost": len({answer.task for answer in accepted} - there),
        "accepted_after_the_promotion": sum(answer.at > promoted_at for answer in accepted),
        "seconds_without_writes": find_longest_gap([answer.at for answer in accepted], begun=begun, ended=ended),
        "seconds_until_promoted": promoted_at - killed_at,
        "seconds_without_answers_to_reads": find_longest_gap(
            [answer.at for answer in read if answer.status == 200], begun=begun, ended=ended
        ),
        "seconds_without_lessons": find_longest_gap(
            [answer.at for answer in read if answer.lessons], begun=begun, ended=ended
        ),
        "reads_after_the_kill": len(after),
        "reads_by_status": dict(Counter(answer.status for answer in after)),
        "reads_without_lessons": sum(answer.status == 200 and not answer.lessons for answer in after),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start everything and measure."""
    home = Path(tempfile.mkdtemp(prefix="erl-cluster-")).resolve()
    for name in [*os.environ]:
        if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
            del os.environ[name]
    os.environ |= {"ERL_HOME": str(home), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    from tests.cluster.servers import Database, Network

    make_network()
    with (home / "servers.log").open("wb") as log:
        network = Network(home=home, cores=options.cores, log=log)
        primary = Database(host=network.add("primary", 11), home=home / "postgres")
        primary.start(log)
        token = fill(options.lessons)
        replica = Database(host=network.add("replica", 12), home=home / "replica")
        replica.follow(primary, log)
        pooled = network.start_pooler(14, primary.host)
        both = f"{primary.host.address},{replica.host.address}"
        direct = f"postgresql://erl@/erl?host={both}&port=5432,5432&target_session_attrs=read-write"
        shared = {
            "CELERY_BROKER_URL": network.start_broker(13),
            "DATABASE_URL": direct,
            "ERL_ALLOWED_HOSTS": "*",
            "ERL_LOG_LEVEL": "WARNING",
            "ERL_RATE_LIMITS": "",
            "TEST_API_MAX_WAIT_SECONDS": "0",
            "ERL_API_MAX_IN_FLIGHT": "0",
            "ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS": "5",
        }
        by_pooler = {"DATABASE_URL": pooled, "ERL_DATABASE_POOLER": "true"} if pooled and options.pooler else {}
        webs = [network.start_web(number, **(shared | by_pooler)) for number in range(1, max(options.hosts) + 1)]
        for host in webs:
            network.wait_for(f"http://{host.address}:8000/ready")
            warm_up(f"{host.address}:8000", token)
            host.limit(options.cores)
        for number in range(1, WORKERS + 1):
            network.start_worker(number, **shared)
        result: dict[str, Any] = {"load_average": os.getloadavg(), "web": []}
        for count in options.hosts:
            result["web"].append(measure_hosts(network, token, count=count, options=options))
            print(result["web"][-1], flush=True)
        if not by_pooler:  # which would go on asking the server that is gone
            result["fail_over"] = fail_over(network, primary, replica, token, options=options)
        for host in network.hosts.values():
            host.kill()
    shutil.rmtree(home)  # not where it failed: the log is there
    return result


def fill(lessons: int) -> str:
    """Make the tables and a project with lessons; return a key of it."""
    import io

    import django

    django.setup()
    from django.apps import apps
    from django.core.management import call_command
    from django.db import connections

    from bench.serving.seeding import seed_lessons
    from tests.administrator import become_administrator

    call_command("migrate", verbosity=0)
    become_administrator()
    project = apps.get_model("memory.Project").objects.create(slug="cluster", name="Cluster")
    seed_lessons(project, count=lessons)
    out = io.StringIO()
    call_command("create_api_key", project="cluster", client="agent", json=True, stdout=out)
    connections.close_all()
    key: str = json.loads(out.getvalue())["api_key"]
    return key


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", nargs="+", type=int, default=[1, 2, 4], help="Numbers of web hosts to measure.")
    parser.add_argument("--seconds", type=float, default=10.0, help="How long each number is measured.")
    parser.add_argument("--cores", type=float, default=0.2, help="Share of a processor of each web host.")
    parser.add_argument("--lessons", type=int, default=100)
    parser.add_argument("--pooler", action="store_true", help="Let web hosts use PgBouncer; without fail-over.")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    options = parser.parse_args()
    if not is_laboratory():
        if obstacle := find_obstacle():
            raise SystemExit(obstacle)
        raise SystemExit(run_in_laboratory(sys.executable, "-m", "tests.cluster.measure", *sys.argv[1:]).returncode)
    result = measure(options)
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
