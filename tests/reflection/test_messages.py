"""Messages to the workers: quick, and of no consequence when the broker is away."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery

from erl_site.embedded import valkey
from reflection.jobs.messages import Sender
from tests.waiting import wait_until

QUEUE = "erl"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Path]:
    """A Valkey of this test's own that it may stop and start."""
    home = tmp_path / "valkey"
    valkey.ensure(home, durable=False)
    yield home
    valkey.stop(home)


def make_sender(url: str, **options: Any) -> Sender:
    app = Celery("messages", broker=url, set_as_current=False, task_default_queue=QUEUE, fixups=[])
    app.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
    app.conf.broker_transport_options = {"socket_timeout": 0.2, "socket_connect_timeout": 0.2, "max_retries": 0}
    return Sender(app=app, **options)


def messages(home: Path) -> list[dict[str, Any]]:
    with redis.Redis(unix_socket_path=str(valkey.socket_path(home))) as client:
        return [json.loads(raw) for raw in client.lrange(QUEUE, 0, -1)]


def test_message_names_the_job(own_broker: Path) -> None:
    id = uuid4()

    sent = make_sender(valkey.broker_url(own_broker)).send_job(id, "reflection")

    [message] = messages(own_broker)
    assert sent
    assert message["headers"]["task"] == "reflection.tasks.run_job"
    assert message["headers"]["argsrepr"] == f"('{id}',)"
    assert message["headers"]["eta"] is None


def test_message_without_a_broker_is_refused_and_counted(tmp_path: Path) -> None:
    sender = make_sender(valkey.broker_url(tmp_path / "nowhere"))

    sent = sender.send_job(uuid4(), "reflection")

    assert not sent
    assert sender.failures == 1


def test_messages_after_a_failure_do_not_wait_for_the_broker_again() -> None:
    with socket.socket() as silent:  # accepts connections and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        sender = make_sender(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")

        sent = [sender.send_job(uuid4(), "reflection") for _ in range(100)]

    assert not any(sent)
    assert sender.failures == 1


def test_broker_that_was_restarted_loses_no_message(own_broker: Path) -> None:
    sender = make_sender(valkey.broker_url(own_broker))
    sender.send_job(uuid4(), "reflection")
    valkey.stop(own_broker)
    valkey.ensure(own_broker, durable=False)

    sent = sender.send_job(uuid4(), "reflection")

    assert sent
    assert len(messages(own_broker)) == 1


def test_messages_are_sent_again_when_the_broker_is_back(own_broker: Path) -> None:
    sender = make_sender(valkey.broker_url(own_broker), pause_seconds=0)
    valkey.stop(own_broker)
    while_away = sender.send_job(uuid4(), "reflection")
    valkey.ensure(own_broker, durable=False)

    sent = sender.send_job(uuid4(), "reflection")

    assert (while_away, sent) == (False, True)
    assert len(messages(own_broker)) == 1


def test_messages_that_wait_are_counted(own_broker: Path) -> None:
    sender = make_sender(valkey.broker_url(own_broker))
    for _ in range(3):
        sender.send_job(uuid4(), "reflection")

    assert sender.count_waiting(QUEUE) == 3
    assert sender.count_waiting("another") == 0


def test_messages_of_a_broker_that_is_away_cannot_be_counted(tmp_path: Path) -> None:
    assert make_sender(valkey.broker_url(tmp_path / "nowhere")).count_waiting(QUEUE) is None


def test_in_the_background_nothing_waits_for_a_silent_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = make_sender(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        sender.send_in_background()

        sent = [sender.send_job(uuid4(), "reflection") for _ in range(20)]
        failures_at_once = sender.failures
        wait_until(lambda: sender.failures == 1)

    assert sent == [True] * 20
    assert failures_at_once == 0


def test_what_is_sent_in_the_background_arrives(own_broker: Path) -> None:
    sender = make_sender(valkey.broker_url(own_broker))
    sender.send_in_background()
    ids = [uuid4() for _ in range(5)]
    for id in ids:
        sender.send_job(id, "reflection")

    wait_until(lambda: len(messages(own_broker)) == 5)
    assert {message["headers"]["argsrepr"] for message in messages(own_broker)} == {f"('{id}',)" for id in ids}
