"""Messages of due jobs that the broker lacks are sent again, and no others."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from erl_site.embedded import valkey
from reflection.jobs.messages import sender
from reflection.jobs.resending import find_overdue_jobs
from reflection.reflectors.models import Reflection
from reflection.tasks import resend
from tests.factories import make_reflection
from tests.reflection.queueing import claim, expire_lease
from tests.servers import HOME

pytestmark = pytest.mark.django_db

Status = Reflection.Status


@pytest.fixture
def queue(broker: str) -> Iterator["redis.Redis"]:
    """The tests' broker, without messages of ours before and after."""
    with redis.Redis(unix_socket_path=str(valkey.socket_path(HOME / "valkey"))) as client:
        client.delete("erl")
        sender.reset()  # an earlier test may have done without the broker
        yield client
        client.delete("erl")


def make_overdue(seconds: float = 5, **overrides: Any) -> Reflection:
    return make_reflection(available_at=timezone.now() - timedelta(seconds=seconds), **overrides)


def make_abandoned() -> Reflection:
    reflection = make_reflection()
    claim(reflection.pk, owner="dead")
    expire_lease(reflection)
    return reflection


def read_jobs(queue: "redis.Redis") -> list[str]:
    """Return what the messages that wait name."""
    return sorted(json.loads(raw)["headers"]["argsrepr"] for raw in queue.lrange("erl", 0, -1))


def names_of(*jobs: Reflection) -> list[str]:
    return sorted(f"('{job.pk}',)" for job in jobs)


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RETRY, Status.DEFERRED_BUDGET])
def test_overdue_is_what_was_due_a_second_ago(status: str) -> None:
    overdue = make_overdue(status=status)
    make_overdue(0, status=status)

    assert [job.pk for job in find_overdue_jobs()] == [overdue.pk]


@pytest.mark.parametrize("status", [Status.DONE, Status.DEAD])
def test_overdue_is_nothing_finished(status: str) -> None:
    make_overdue(status=status)

    assert find_overdue_jobs() == []


def test_waiting_and_abandoned_jobs_are_sent_again(queue: "redis.Redis") -> None:
    jobs = [make_overdue(), make_abandoned()]

    resend()

    assert read_jobs(queue) == names_of(*jobs)


def test_messages_do_not_pile_up_while_no_worker_takes_them(queue: "redis.Redis") -> None:
    jobs = [make_overdue() for _ in range(12)]

    for _ in range(6):
        resend()

    assert read_jobs(queue) == names_of(*jobs)


def test_messages_that_the_broker_forgot_are_sent_again(queue: "redis.Redis") -> None:
    jobs = [make_overdue() for _ in range(3)]
    resend()
    queue.delete("erl")  # the broker has forgotten them

    resend()

    assert read_jobs(queue) == names_of(*jobs)
