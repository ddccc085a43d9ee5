"""Vectors of tasks that processes share in the broker's server: real Valkey, one cache for each process."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from erl_site.embedded import valkey
from memory.embeddings import shared
from memory.embeddings.cache import TaskVectorCache
from memory.embeddings.shared import PLACES, SharedVectors
from tests.memory.embedding_service import EmbeddingService

TASK = "Refund order 4711-CANARY to the customer"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("shared") / "valkey"
    valkey.ensure(home, durable=False)
    yield home
    valkey.discard(home)


@pytest.fixture
def server(broker: Path, settings: Any) -> Iterator[redis.Redis]:
    settings.CELERY_BROKER_URL, settings.ERL_QUERY_CACHE_SECONDS = valkey.broker_url(broker), 60
    with redis.Redis(unix_socket_path=str(valkey.socket_path(broker))) as client:
        client.flushall()
        yield client


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the server as long as a busy machine needs, not as short as a request may."""
    monkeypatch.setattr(shared, "SOCKET_SECONDS", 5.0)
    monkeypatch.setattr(shared, "SLOW_SECONDS", 5.0)


def make_process() -> TaskVectorCache:
    """What a process that has just started knows."""
    return TaskVectorCache(shared=SharedVectors())


@pytest.mark.usefixtures("patience")
def test_second_process_takes_the_vector_of_the_first(server: redis.Redis, service: EmbeddingService) -> None:
    embedder = service.embedder()
    made = make_process().embed(embedder, TASK)
    wait_for_keys(server)
    taken = make_process().embed(embedder, TASK)
    assert len(service.requests) == 1
    assert np.array_equal(made.astype(np.float16), taken.astype(np.float16))


def test_vector_lies_under_no_words_and_expires(server: redis.Redis, service: EmbeddingService) -> None:
    make_process().embed(service.embedder(), TASK)
    wait_for_keys(server)
    (key,) = (bytes(name) for name in server.scan_iter())
    assert 0 < server.ttl(key) <= 60
    assert b"CANARY" not in key + server.get(key)  # type: ignore[operator]
    assert int(key.rpartition(b":")[2]) < PLACES


def test_another_model_does_not_take_it(server: redis.Redis, service: EmbeddingService) -> None:
    process = make_process()
    process.embed(service.embedder(), TASK)
    assert make_process().find("another-model", TASK) is None


def test_what_lies_in_its_place_of_another_task_is_not_taken(
    server: redis.Redis, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.embeddings.shared.PLACES", 1)
    embedder = service.embedder()
    make_process().embed(embedder, TASK)
    wait_for_keys(server)
    make_process().embed(embedder, "another task")
    assert len(service.requests) == 2
    wait_for_keys(server)
    server.set("erl:vector:0", b"\xff" * 40)
    assert make_process().find(embedder.model_id, TASK) is None


@pytest.mark.usefixtures("patience")
def test_server_that_starts_again_is_found_again(server: redis.Redis, service: EmbeddingService) -> None:
    process, embedder = make_process(), service.embedder()
    process.embed(embedder, "one")
    server.client_kill_filter(skipme=True)
    process.embed(embedder, TASK)
    wait_for_keys(server, 2)
    make_process().embed(embedder, TASK)
    assert [request["input"] for request in service.requests] == [["one"], [TASK]]


def test_dead_server_is_left_alone(settings: Any, service: EmbeddingService) -> None:
    settings.CELERY_BROKER_URL, settings.ERL_QUERY_CACHE_SECONDS = "redis://127.0.0.1:1/0", 60
    process, embedder = make_process(), service.embedder()
    assert all(process.embed(embedder, str(number)).any() for number in range(5))
    assert process._shared._breaker.is_resting


def test_silent_server_costs_three_short_waits(settings: Any, service: EmbeddingService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        settings.ERL_QUERY_CACHE_SECONDS = 60
        process, embedder = make_process(), service.embedder()
        assert all(process.embed(embedder, str(number)).any() for number in range(5))
        assert process._shared._breaker.is_resting


@pytest.mark.usefixtures("patience")
def test_threads_do_not_read_each_others_answers(
    server: redis.Redis, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "PLACES", 2**63)  # so many that no two tasks meet in one
    embedder, first = service.embedder(), make_process()
    tasks = [f"task {number}" for number in range(20)]
    made = {task: first.embed(embedder, task) for task in tasks}
    wait_for_keys(server, len(tasks))
    second = make_process()
    wrong: list[str] = []

    def ask(mine: list[str]) -> None:
        wrong.extend(
            task
            for task in mine
            if (found := second.find(embedder.model_id, task)) is None
            or not np.array_equal(found.astype(np.float16), made[task].astype(np.float16))
        )

    threads = [threading.Thread(target=ask, args=(tasks[place:] + tasks[:place],)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_nothing_is_shared_where_the_setting_says_so(
    server: redis.Redis, settings: Any, service: EmbeddingService
) -> None:
    settings.ERL_QUERY_CACHE_SECONDS = 0
    embedder = service.embedder()
    for _ in range(2):
        make_process().embed(embedder, TASK)
    assert len(service.requests) == 2
    assert server.dbsize() == 0


@pytest.mark.parametrize("broker", ["memory://", "amqp://queue.example", "sentinel://watch.example:26379"])
def test_broker_of_another_kind_shares_nothing_and_breaks_nothing(
    broker: str, settings: Any, service: EmbeddingService
) -> None:
    settings.CELERY_BROKER_URL, settings.ERL_QUERY_CACHE_SECONDS = broker, 60
    embedder = service.embedder()
    for _ in range(2):
        make_process().embed(embedder, TASK)
    assert len(service.requests) == 2


def wait_for_keys(server: redis.Redis, count: int = 1) -> None:
    """Vectors are sent without waiting for the answer."""
    end = time.monotonic() + 5
    while server.dbsize() < count and time.monotonic() < end:
        time.sleep(0.01)
