"""Real Celery workers on a broker of their own, with a slow model on loopback, for tests that break things."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import redis
from django.db import connection

from erl_site.embedded import valkey
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from reflection.jobs.messages import sender
from reflection.jobs.models import WorkerHeartbeat
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.requests import enqueue_reflection
from tests.factories import make_project, make_trajectory
from tests.scripted_answers import Behaviour, Exchange, answer, lesson
from tests.scripted_provider import ScriptedProvider
from tests.servers import HOME
from tests.stack import Stack, database_url, kill_workers
from tests.waiting import wait_until

BY = Actor(label="key:chaos")
Status = Reflection.Status
BROKER = HOME / "valkey"
LEASE_SECONDS = 1.0
PROBE_SECONDS, PROBES_FAILED = 5.0, 3
_NUMBER = re.compile(r"Case (\d+)")


@dataclass(kw_only=True)
class WorkerStack(Stack):
    """Workers whose sign of life is in the database: they may be without a broker."""

    def start_worker(self, name: str = "worker", *, concurrency: int = 2, soft_shutdown_seconds: float = 30) -> None:
        """Start a Celery worker, and the scheduler that it needs, and wait until the worker shows that it lives."""
        if "beat" not in self.processes:
            self.start_beat()
        pool = ["-P", "prefork", "-c", str(concurrency), "--without-mingle", "--without-gossip"]
        overridden = ["--", f"worker.soft_shutdown_timeout={soft_shutdown_seconds}"]
        self._start(name, "celery", "-A", "erl_site", "worker", *pool, "-n", f"{name}@{self.port}", *overridden)
        self._wait(name, lambda: self._worker_answers(name))

    def kill(self, name: str) -> None:
        """Kill a worker and its children with -9, where a test has left any."""
        with suppress(ProcessLookupError):
            super().kill(name)

    def _worker_answers(self, name: str, *, seconds: float = 0.5) -> bool:
        return WorkerHeartbeat.objects.filter(pk=f"{name}@{self.port}/{self.processes[name].pid}").exists()


@dataclass(kw_only=True)
class Jobs:
    """Workers, their broker and the model they ask."""

    stack: WorkerStack
    provider: ScriptedProvider

    def enqueue(self, count: int, *, first: int = 1) -> list[Reflection]:
        """Queue the reflections of this many runs of one project, and ring for each; cases count from `first` on."""
        project = make_project()
        return [
            enqueue_reflection(make_trajectory(project=project, task=f"Case {number}"), by=BY)
            for number in range(first, first + count)
        ]

    def wait_for_all(self, *, seconds: float = 120.0) -> None:
        """Wait until everything that was queued is done or given up."""
        wait_until(all_finished, seconds=seconds, every_seconds=0.1)

    def wait_for_all_with_probes(self, *, seconds: float) -> int:
        """Wait as `wait_for_all`, and restart a worker that answers no probe; return how many were.

        Its connection may be one on which nothing comes any more. Containers are restarted for the same reason.
        """
        end, failures, restarted = time.monotonic() + seconds, 0, 0
        while not all_finished():
            assert time.monotonic() < end, f"nothing after {seconds} seconds"
            failures = 0 if Stack._worker_answers(self.stack, "worker", seconds=PROBE_SECONDS) else failures + 1
            if failures == PROBES_FAILED:
                self.stack.kill("worker")
                self.stack.start_worker()
                failures, restarted = 0, restarted + 1
            time.sleep(0.1)
        return restarted

    def start_broker(self) -> None:
        """Bring the broker back, whatever was done to it."""
        pid = valkey.process_id(BROKER)
        if pid is not None:
            kill(pid, signal.SIGCONT)
        valkey.ensure(BROKER, durable=False)

    def stop_broker(self) -> None:
        valkey.stop(BROKER)

    def freeze_broker(self) -> None:
        """Leave the broker's connections open and without an answer."""
        pid = valkey.process_id(BROKER)
        assert pid is not None
        kill(pid, signal.SIGSTOP)

    def broker_client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(valkey.socket_path(BROKER)))

    def flush_broker(self) -> None:
        with self.broker_client() as client:
            client.flushall()


@contextmanager
def jobs(*, environment: dict[str, str] | None = None, behaviour: Behaviour | None = None) -> Iterator[Jobs]:
    """A queue of one's own and everything but a worker: `stack.start_worker()` starts one."""
    kill_workers()
    home = Path(tempfile.mkdtemp(prefix="erl-jobs-")).resolve()
    with ScriptedProvider(otherwise=behaviour or slowly(0.3)) as provider:
        seen_by_workers = {
            "DATABASE_URL": database_url(connection.settings_dict),
            "CELERY_BROKER_URL": valkey.broker_url(BROKER),
            "TEST_REFLECTION_LEASE_SECONDS": str(LEASE_SECONDS),
            "ERL_EMBEDDER": "none",
            "ERL_LLM_PROVIDER": "openai-compatible",
            "ERL_LLM_MODEL": "scripted-1",
            "ERL_LLM_BASE_URL": provider.openai_url,
        }
        made = Jobs(stack=WorkerStack(home=home, environment=seen_by_workers | (environment or {})), provider=provider)
        made.start_broker()
        made.flush_broker()
        sender.reset()  # an earlier test may have taken the broker away
        try:
            yield made
        finally:
            made.stack.kill_all()
            made.start_broker()
            made.flush_broker()
            sender.reset()
            shutil.rmtree(home, ignore_errors=True)


def slowly(seconds: float) -> Behaviour:
    """Answer after a while with a lesson about the case that was asked about."""

    def play(exchange: Exchange) -> None:
        exchange.stopping.wait(seconds)
        answer(lesson_of(exchange))(exchange)

    return play


def once(event: Event) -> Behaviour:
    """Answer once an event has happened, however long it takes, with a lesson about the case."""

    def play(exchange: Exchange) -> None:
        while not event.wait(0.05) and not exchange.stopping.is_set():
            pass
        answer(lesson_of(exchange))(exchange)

    return play


def lesson_of(exchange: Exchange) -> dict[str, Any]:
    number = case_number(exchange)
    return lesson(
        trigger=f"When the customer of case {number} asks to cancel",
        action="Call get_reservation_details before cancel_reservation.",
        not_when="",
        tools=["get_reservation_details", "cancel_reservation"],
    )


def case_number(exchange: Exchange) -> int:
    found = _NUMBER.search(exchange.request.user_text)
    assert found is not None
    return int(found[1])


def working_process(reflection: Reflection) -> int:
    """Return the process that holds a reflection."""
    return int(reflection.lease_owner.rsplit("/", 1)[1])


def find_running() -> Reflection | None:
    return Reflection.objects.filter(status=Status.RUNNING, lease_owner__contains="/").order_by("?").first()


def all_finished() -> bool:
    return not Reflection.objects.live().exists()


def kill(process_id: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(process_id, number)
    except ProcessLookupError:
        time.sleep(0.01)


def assert_each_has_one_effect(count: int, *, asked_once: bool = True) -> None:
    """The conservation law: what went in came out, once.

    `asked_once=False` where a later attempt may ask another question: the lessons of others are part of it.
    """
    assert Reflection.objects.count() == Reflection.objects.filter(status=Status.DONE).count() == count
    assert Proposal.objects.count() == Heuristic.objects.count() == count
    assert Proposal.objects.values("reflection").distinct().count() == count
    assert ModelCall.objects.values("job").distinct().count() == count
    assert ModelCall.objects.count() == count or not asked_once
