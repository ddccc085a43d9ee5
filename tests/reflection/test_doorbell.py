"""Ringing for a worker: quick, and of no consequence when the broker is away."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery
from structlog.testing import capture_logs

from erl_site.embedded import valkey
from reflection.jobs.doorbell import Doorbell
from tests.waiting import wait_until

QUEUE = "erl"


@pytest.fixture
def bell_broker(tmp_path: Path) -> Iterator[Path]:
    """A Valkey of this test's own that it may stop and start."""
    home = tmp_path / "valkey"
    valkey.ensure(home, durable=False)
    yield home
    valkey.stop(home)


def make_app(url: str) -> Celery:
    return Celery("bell", broker=url, set_as_current=False, task_default_queue=QUEUE, fixups=[])


def messages(home: Path) -> list[dict[str, Any]]:
    with redis.Redis(unix_socket_path=str(valkey.socket_path(home))) as client:
        return [json.loads(raw) for raw in client.lrange(QUEUE, 0, -1)]


def test_ring_puts_the_id_into_the_queue(bell_broker: Path) -> None:
    bell = Doorbell(app=make_app(valkey.broker_url(bell_broker)))
    id = uuid4()

    rung = bell.ring(id, "reflection")
    bell.close()

    [message] = messages(bell_broker)
    assert rung
    assert message["headers"]["task"] == "reflection.tasks.run_job"
    assert message["headers"]["argsrepr"] == f"('{id}',)"
    assert message["headers"]["eta"] is None


def test_ring_without_a_broker_is_refused_and_counted(tmp_path: Path) -> None:
    bell = Doorbell(app=make_app(valkey.broker_url(tmp_path / "nowhere")))

    rung = bell.ring(uuid4(), "reflection")

    assert not rung
    assert bell.failures == 1


def test_ring_after_a_failure_does_not_wait_for_the_broker_again() -> None:
    with socket.socket() as silent:  # accepts connections and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        bell = Doorbell(app=make_app(f"redis://127.0.0.1:{silent.getsockname()[1]}/0"))

        rung = [bell.ring(uuid4(), "reflection") for _ in range(100)]

    assert not any(rung)
    assert bell.failures == 1


def test_ring_works_again_when_the_broker_is_back(bell_broker: Path) -> None:
    bell = Doorbell(app=make_app(valkey.broker_url(bell_broker)), first_pause_seconds=0)
    bell.ring(uuid4(), "reflection")
    valkey.stop(bell_broker)
    while_away = bell.ring(uuid4(), "reflection")
    valkey.ensure(bell_broker, durable=False)

    rung = bell.ring(uuid4(), "reflection")
    bell.close()

    assert (while_away, rung) == (False, True)
    assert len(messages(bell_broker)) == 1


def test_pause_doubles_to_its_limit(tmp_path: Path) -> None:
    bell = Doorbell(
        app=make_app(valkey.broker_url(tmp_path / "nowhere")), first_pause_seconds=0.001, longest_pause_seconds=0.004
    )
    with capture_logs() as lines:
        while bell.failures < 4:
            bell.ring(uuid4(), "reflection")

    assert [line["pause_seconds"] for line in lines] == [0.001, 0.002, 0.004, 0.004]


def test_in_the_background_nobody_waits_for_a_silent_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bell = Doorbell(app=make_app(f"redis://127.0.0.1:{silent.getsockname()[1]}/0"))
        bell.ring_in_background()

        rung = [bell.ring(uuid4(), "reflection") for _ in range(20)]
        failures_at_once = bell.failures
        wait_until(lambda: bell.failures == 1)

    assert rung == [True] * 20
    assert failures_at_once == 0


def test_fork_that_was_told_to_ring_in_the_background_does(bell_broker: Path) -> None:
    bell = Doorbell(app=make_app(valkey.broker_url(bell_broker)))
    bell._process_id -= 1  # as if a parent had made it
    bell.ring_in_background()

    assert bell.ring(uuid4(), "reflection")
    assert bell._waiting is not None
    wait_until(lambda: len(messages(bell_broker)) == 1)
    bell.close()


def test_what_is_rung_in_the_background_arrives(bell_broker: Path) -> None:
    bell = Doorbell(app=make_app(valkey.broker_url(bell_broker)))
    bell.ring_in_background()
    ids = [uuid4() for _ in range(5)]
    for id in ids:
        bell.ring(id, "reflection")

    wait_until(lambda: len(messages(bell_broker)) == 5)
    bell.close()
    assert {message["headers"]["argsrepr"] for message in messages(bell_broker)} == {f"('{id}',)" for id in ids}
