"""The thread in every worker that finds what the broker forgot."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery.worker import state
from django.db.models.functions import Now
from django.utils import timezone

from erl_site.embedded import valkey
from reflection.jobs.doorbell import RUN_JOB
from reflection.jobs.models import WorkerHeartbeat
from reflection.jobs.sweeper import Sweeper, find_overdue_jobs
from reflection.jobs.workers import elect_sweeper, record_claim, record_heartbeat
from reflection.reflectors.models import Reflection
from reflection.tasks import sweep
from tests.factories import make_reflection
from tests.reflection.queueing import claim
from tests.servers import HOME

pytestmark = pytest.mark.django_db

Status = Reflection.Status


@pytest.fixture
def queue(broker: str) -> Iterator["redis.Redis"]:
    """The tests' broker, without messages of ours before and after."""
    with redis.Redis(unix_socket_path=str(valkey.socket_path(HOME / "valkey"))) as client:
        client.delete("erl")
        yield client
        client.delete("erl")


def make_overdue(seconds: float = 5, **overrides: Any) -> Reflection:
    return make_reflection(available_at=timezone.now() - timedelta(seconds=seconds), **overrides)


def make_abandoned() -> Reflection:
    reflection = make_reflection()
    claim(reflection.pk, owner="dead")
    Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))
    return reflection


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RETRY, Status.DEFERRED_BUDGET])
def test_overdue_is_what_was_due_a_second_ago(status: str) -> None:
    overdue = make_overdue(status=status)
    make_overdue(0, status=status)

    assert [each.id for each in find_overdue_jobs()] == [overdue.pk]


def test_overdue_is_what_a_dead_worker_left() -> None:
    abandoned = make_abandoned()

    assert find_overdue_jobs() == [(abandoned.pk, "reflection", 1)]


@pytest.mark.parametrize("status", [Status.DONE, Status.DEAD])
def test_overdue_is_nothing_finished(status: str) -> None:
    make_overdue(status=status)

    assert find_overdue_jobs() == []


def test_tick_rings_for_what_is_overdue(queue: "redis.Redis") -> None:
    make_overdue()
    make_abandoned()

    Sweeper(worker="w/1", concurrency=2).tick()

    assert queue.llen("erl") == 2


def test_tick_rings_once_and_not_every_second(queue: "redis.Redis") -> None:
    make_overdue()
    sweeper = Sweeper(worker="w/1", concurrency=2)

    sweeper.tick()
    sweeper.tick()

    assert queue.llen("erl") == 1


def test_tick_rings_again_for_another_attempt(queue: "redis.Redis") -> None:
    reflection = make_overdue()
    sweeper = Sweeper(worker="w/1", concurrency=2)
    sweeper.tick()
    queue.delete("erl")  # a worker has taken the message
    claim(reflection.pk, owner="dead")
    Reflection.objects.update(lease_until=Now() - timedelta(seconds=1))

    sweeper.tick()

    assert queue.llen("erl") == 1


def read_jobs(queue: "redis.Redis") -> list[str]:
    """Return what the messages that wait name; the periodic work sends others."""
    messages = [json.loads(raw)["headers"] for raw in queue.lrange("erl", 0, -1)]
    return [message["argsrepr"] for message in messages if message["task"] == RUN_JOB]


def sweep_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep as a worker and the scheduler do within a minute, while no worker takes a message."""
    sweeper = Sweeper(worker="w/1", concurrency=2)
    monkeypatch.setattr("reflection.jobs.sweeper.NUDGE_AGAIN_SECONDS", 0.0)  # each sweep is ten seconds later
    for _ in range(6):
        sweeper.tick()
        WorkerHeartbeat.objects.update(last_sweep_at=None)  # more than a second ago
        sweep()


def test_messages_do_not_pile_up_while_no_worker_takes_them(
    queue: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [make_overdue() for _ in range(12)]

    sweep_for_a_minute(monkeypatch)

    assert sorted(read_jobs(queue)) == sorted(f"('{job.pk}',)" for job in jobs)


def test_messages_that_the_broker_forgot_are_sent_again(queue: "redis.Redis", monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [make_overdue() for _ in range(3)]
    sweep_for_a_minute(monkeypatch)
    queue.delete("erl")  # the broker has forgotten them

    sweep_for_a_minute(monkeypatch)

    assert sorted(read_jobs(queue)) == sorted(f"('{job.pk}',)" for job in jobs)


def test_tick_shows_that_the_worker_lives(queue: "redis.Redis") -> None:
    Sweeper(worker="w/1", concurrency=2).tick()

    heartbeat = WorkerHeartbeat.objects.get(pk="w/1")
    assert heartbeat.last_sweep_at is not None
    assert heartbeat.last_claim_at is None


def test_one_worker_sweeps_while_it_lives() -> None:
    record_heartbeat("one")
    record_heartbeat("two")

    elected = [elect_sweeper(name, unless_swept_within_seconds=1.2) for name in ("one", "two", "one")]

    assert elected == [True, False, True]


def test_another_worker_takes_over_from_a_dead_one() -> None:
    record_heartbeat("dead")
    record_heartbeat("next")
    elect_sweeper("dead", unless_swept_within_seconds=1.2)
    WorkerHeartbeat.objects.filter(pk="dead").update(last_sweep_at=Now() - timedelta(seconds=1.3))

    assert elect_sweeper("next", unless_swept_within_seconds=1.2)


class _Stalled(Sweeper):
    """Counts the processes it would start."""

    drains = 0

    def start_drain(self, command: str) -> subprocess.Popen[bytes]:
        self.drains += 1
        return subprocess.Popen(["/bin/sleep", "30"])


@pytest.fixture
def sweeper(queue: "redis.Redis") -> Iterator[_Stalled]:
    sweeper = _Stalled(worker="w/1", concurrency=1, started_at=time.monotonic() - 60)
    yield sweeper
    sweeper.stop()


def test_idle_worker_helps_itself_when_work_waits_too_long(sweeper: _Stalled) -> None:
    make_overdue(31)

    sweeper.tick()
    sweeper.tick()

    assert sweeper.drains == 1


def test_worker_that_has_just_started_waits_for_its_messages(queue: "redis.Redis") -> None:
    make_overdue(3600)
    sweeper = _Stalled(worker="w/1", concurrency=1)

    sweeper.tick()

    assert sweeper.drains == 0


def test_worker_that_gets_messages_does_not_help_itself(sweeper: _Stalled) -> None:
    make_overdue(31)
    record_claim("w/1")

    sweeper.tick()

    assert sweeper.drains == 0


def test_worker_without_a_free_place_does_not_help_itself(sweeper: _Stalled) -> None:
    make_overdue(31)
    request = type("Request", (), {})()
    state.active_requests.add(request)

    sweeper.tick()
    state.active_requests.discard(request)

    assert sweeper.drains == 0


def test_work_that_waits_for_less_is_left_to_the_workers(sweeper: _Stalled) -> None:
    make_overdue(25)

    sweeper.tick()

    assert sweeper.drains == 0


def test_worker_that_stays_without_messages_ends_to_be_started_again(
    sweeper: _Stalled, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ERL_REFLECTION_LEASE_SECONDS = 0.05
    monkeypatch.setattr("reflection.jobs.sweeper.LEAST_SECONDS_UNTIL_END", 0.1)
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    make_overdue(31)

    sweeper.tick()
    sent_at_first = len(signals)
    time.sleep(0.2)
    sweeper.tick()
    signal.signal(signal.SIGTERM, before)

    assert (sent_at_first, signals) == (0, [signal.SIGTERM])


def test_terminated_worker_gives_back_what_it_held(queue: "redis.Redis") -> None:
    held, others = make_reflection(), make_reflection()
    claim(held.pk, owner="w/1/77")
    claim(others.pk, owner="w/2/78")

    Sweeper(worker="w/1", concurrency=2).terminate()

    held.refresh_from_db()
    others.refresh_from_db()
    assert (held.status, others.status) == (Status.RETRY, Status.RUNNING)
