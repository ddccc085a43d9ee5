"""Recording stays quick whatever the broker does, and what was recorded is reflected on when it is over (F7)."""

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from erl_site.embedded import valkey
from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from tests.chaos.jobs import BROKER, Jobs, Status, assert_each_has_one_effect, jobs, slowly
from tests.chaos.profile import FULL, History, pick, report
from tests.chaos.proxy import Fault, FaultProxy
from tests.chaos.web import RIGHT, ChaosWeb
from tests.factories import STEPS, make_api_key
from tests.stack import database_url

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

RUNS = pick(6, 200, full=150)  # during each fault
CLIENTS = 2
PAUSE_SECONDS = 0.02
POST_P99_MS = 150  # asserted in the full profile, which wants an idle machine
DRAINED_SECONDS = 60


def kill_broker(made: Jobs, proxy: FaultProxy) -> None:
    pid = valkey.process_id(BROKER)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def flush_broker(made: Jobs, proxy: FaultProxy) -> None:
    made.flush_broker()


def break_network(fault: Fault) -> Callable[[Jobs, FaultProxy], None]:
    return lambda made, proxy: proxy.break_with(fault)


BREAKAGES: dict[str, Callable[[Jobs, FaultProxy], None]] = {
    "refused": break_network(Fault.REFUSED),
    "killed": kill_broker,
    "flushed": flush_broker,
    "half-open": break_network(Fault.HALF_OPEN),
    "slow": break_network(Fault.SLOW),
    "reset": break_network(Fault.RESET),
}


QUICK = ("half-open", "slow", "reset")  # test_broker_loss.py has the others


def heal(made: Jobs, proxy: FaultProxy) -> None:
    made.start_broker()
    proxy.heal()


class Recorder(threading.Thread):
    """Records runs one after the other over one connection, and notes how long each took."""

    def __init__(self, port: int, token: str, tasks: list[str], history: History) -> None:
        super().__init__(daemon=True)
        self.port, self.token, self.tasks, self.history = port, token, tasks, history
        self.milliseconds: list[float] = []
        self.statuses: list[int] = []

    def run(self) -> None:
        there = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        for task in self.tasks:
            self.history.attempt(task)
            body = json.dumps({"task": task, "steps": STEPS, "outcome": "failure"})
            started = time.perf_counter()
            there.request("POST", RIGHT, body, headers)
            answer = there.getresponse()
            answer.read()
            self.milliseconds.append((time.perf_counter() - started) * 1000)
            self.statuses.append(answer.status)
            if answer.status == 201:
                self.history.acknowledge(task)
            time.sleep(PAUSE_SECONDS)
        there.close()


def record(port: int, token: str, tasks: list[str], history: History) -> tuple[list[float], list[int]]:
    at_work = [Recorder(port, token, tasks[number::CLIENTS], history) for number in range(CLIENTS)]
    for each in at_work:
        each.start()
    for each in at_work:
        each.join()
    return [ms for each in at_work for ms in each.milliseconds], [s for each in at_work for s in each.statuses]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def test_recording_does_not_feel_the_broker_and_nothing_is_forgotten() -> None:
    token, history = make_api_key().token, History(name="F7")
    found: dict[str, Any] = {}
    not_201 = count = restarted = 0
    with FaultProxy(upstream=valkey.socket_path(BROKER)) as proxy:
        environment = {
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{proxy.port}/0",
            "TEST_REFLECTION_LEASE_SECONDS": "5",
            "ERL_LOG_LEVEL": "WARNING",
        }
        with jobs(environment=environment, behaviour=slowly(0)) as made:
            web = ChaosWeb(
                home=made.stack.home,
                environment=made.stack.environment | {"DATABASE_URL": database_url(connection.settings_dict)},
            )
            try:
                web.start_web()
                made.stack.start_worker()
                record(web.port, token, tasks_from(0, count := 8), history)
                for name in BREAKAGES if FULL else QUICK:
                    made.wait_for_all(seconds=120)
                    BREAKAGES[name](made, proxy)
                    tasks = tasks_from(count, RUNS)
                    count += RUNS
                    taken, statuses = record(web.port, token, tasks, history)
                    not_201 += sum(status != 201 for status in statuses)
                    heal(made, proxy)
                    healed_at = time.monotonic()
                    restarted += made.wait_for_all_with_probes(seconds=240)
                    found[name] = {
                        "p50_ms": round(percentile(taken, 0.5)),
                        "p99_ms": round(percentile(taken, 0.99)),
                        "drained_s": round(time.monotonic() - healed_at, 1),
                    }
            finally:
                web.kill_all()
    verdict = history.judge(Trajectory.objects.values_list("task", flat=True))
    report(
        "F7",
        runs_each=RUNS,
        not_201=not_201,
        workers_restarted=restarted,
        **verdict.counts(),
        reflected=Reflection.objects.filter(status=Status.DONE).count(),
        by_fault=found,
        p99_ms=max(each["p99_ms"] for each in found.values()),
        drained_seconds=max(each["drained_s"] for each in found.values()),
    )
    assert not_201 == 0
    assert verdict.is_sound
    assert_each_has_one_effect(count)
    assert not FULL or max(each["p99_ms"] for each in found.values()) < POST_P99_MS
    assert not FULL or max(each["drained_s"] for each in found.values()) <= DRAINED_SECONDS


def tasks_from(start: int, count: int) -> list[str]:
    return [f"Case {number}" for number in range(start + 1, start + count + 1)]
