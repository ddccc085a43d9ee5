"""What a worker's main process sees to: its heartbeat, and the jobs of what died."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from reflection.jobs import workers
from reflection.jobs.models import WorkerHeartbeat
from reflection.jobs.workers import Caretaker
from reflection.reflectors.models import Reflection
from tests.factories import make_reflection
from tests.reflection.queueing import claim

pytestmark = pytest.mark.django_db

Status = Reflection.Status


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def make_held(owner: str) -> Reflection:
    reflection = make_reflection()
    claim(reflection.pk, owner=owner)
    return reflection


def status_of(reflection: Reflection) -> str:
    return Reflection.objects.get(pk=reflection.pk).status


def test_tick_shows_that_the_worker_lives() -> None:
    WorkerHeartbeat.objects.create(name="w@h/1", seen_at=Now() - timedelta(minutes=1))

    Caretaker("w@h/1").tick()

    assert WorkerHeartbeat.objects.filter(pk="w@h/1", seen_at__gt=Now() - timedelta(seconds=30)).exists()


def test_job_of_a_killed_process_is_given_back(process: "subprocess.Popen[bytes]") -> None:
    held = make_held(f"w@h/1/{process.pid}")
    process.kill()
    time.sleep(0.2)  # it stays as a zombie, since nothing has waited for it

    Caretaker("w@h/1").tick()

    assert status_of(held) == Status.RETRY


def test_job_of_a_process_that_works_stays_there(process: "subprocess.Popen[bytes]") -> None:
    held = make_held(f"w@h/1/{process.pid}")

    Caretaker("w@h/1").tick()

    assert status_of(held) == Status.RUNNING


def make_silent_worker(seconds: float) -> Reflection:
    WorkerHeartbeat.objects.create(name="other@h/2", seen_at=Now() - timedelta(seconds=seconds))
    return make_held("other@h/2/3")


def test_jobs_of_a_worker_whose_heartbeat_stays_away_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WATCHED_SECONDS", 0.0)
    held = make_silent_worker(3)

    Caretaker("w@h/1").tick()

    assert status_of(held) == Status.RETRY


def test_jobs_of_a_worker_that_beats_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WATCHED_SECONDS", 0.0)
    held = make_silent_worker(0)

    Caretaker("w@h/1").tick()

    assert status_of(held) == Status.RUNNING


def test_worker_that_beats_again_after_an_outage_keeps_its_jobs() -> None:
    held = make_silent_worker(3)
    caretaker = Caretaker("w@h/1")
    caretaker.tick()
    WorkerHeartbeat.objects.filter(pk="other@h/2").update(seen_at=Now())
    time.sleep(workers.WATCHED_SECONDS)

    caretaker.tick()

    assert status_of(held) == Status.RUNNING


def test_jobs_of_a_process_without_a_heartbeat_wait_for_their_lease() -> None:
    held = make_held("host/7/7")  # a command

    Caretaker("w@h/1").tick()

    assert status_of(held) == Status.RUNNING


def test_worker_that_quits_gives_back_what_it_held_and_no_more() -> None:
    held, other = make_held("w@h/1/7"), make_held("w@h/11/8")

    Caretaker("w@h/1").terminate()

    assert (status_of(held), status_of(other)) == (Status.RETRY, Status.RUNNING)
