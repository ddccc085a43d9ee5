"""Retrieval is never in the way: whatever fails behind it, an agent gets an answer that says what was missing."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from rest_framework.test import APIClient

from memory.embeddings.registry import forget_embedders
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.retrieval.database import _QueryVectorDumper, read_prepared
from memory.retrieval.models import HeuristicEmbedding, Retrieval
from tests.factories import bearer, make_api_key, make_heuristic, make_project
from tests.memory.embedding_service import EmbeddingService
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True)]
TASK = "Cancel the flight of a passenger"


@pytest.fixture
def project() -> Project:
    made = make_project()
    heuristic = make_heuristic(project=made, status="approved", trigger="A passenger cancels a flight")
    embed_heuristics([heuristic.pk])
    return made


@pytest.fixture
def client(project: Project) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=bearer(make_api_key(project=project).token)["Authorization"])
    ask(client)  # the key is known from now on
    return client


def ask(client: APIClient, task: str = TASK) -> dict[str, Any]:
    response = client.post("/api/v1/retrieve", {"task": task, "record": False}, format="json")
    assert response.status_code == 200, response.content
    body: dict[str, Any] = response.json()
    return body


def ask_until_whole(client: APIClient, *, seconds: float = 20.0) -> dict[str, Any]:
    """Ask until nothing is missing: an embedder that was too slow on a busy machine rests for a few seconds."""
    end = time.monotonic() + seconds
    while True:
        body = ask(client, f"{TASK} afterwards")
        if not body["degraded"] or time.monotonic() > end:
            return body
        time.sleep(0.5)


@contextmanager
def all_connections_taken() -> Iterator[None]:
    """Hold every connection that the database has to give."""
    parameters = _plain_parameters()
    connection.close()
    held: list[psycopg.Connection[Any]] = []
    try:
        while len(held) < 500:
            try:
                held.append(psycopg.connect(**parameters))
            except psycopg.OperationalError:
                break
        assert len(held) < 500
        yield
    finally:
        for each in held:
            each.close()


def test_database_at_its_connection_limit(client: APIClient) -> None:
    with all_connections_taken():
        full = ask(client)
    assert (full["degraded"], full["degraded_reason"], full["context"]) == (True, "database", "")
    assert full["retrieval_id"] is None  # nobody can name an answer that was not written down
    after = ask(client)
    assert (after["degraded"], bool(after["context"])) == (False, True)
    assert Retrieval.objects.filter(pk=after["retrieval_id"]).exists()


def test_index_being_rebuilt(client: APIClient) -> None:
    done = threading.Event()
    failures: list[Exception] = []

    def rebuild() -> None:
        try:
            with psycopg.connect(**_plain_parameters(), autocommit=True) as other:
                while not done.is_set():
                    other.execute("REINDEX TABLE CONCURRENTLY memory_heuristicembedding")
        except psycopg.Error as error:
            failures.append(error)

    worker = threading.Thread(target=rebuild)
    worker.start()
    try:
        answers = [ask(client, f"{TASK} number {number}") for number in range(15)]
    finally:
        done.set()
        worker.join(30)
    assert failures == []
    assert all(answer["context"] or answer["degraded"] for answer in answers)
    whole = ask_until_whole(client)
    assert whole["context"]
    assert not whole["degraded"], whole["degraded_reason"]


def test_table_that_nobody_can_read_for_a_while(client: APIClient) -> None:
    with psycopg.connect(**_plain_parameters()) as other:
        other.execute("LOCK TABLE memory_heuristicembedding, memory_servedchange IN ACCESS EXCLUSIVE MODE")
        answer = ask(client, "Cancel another flight")
    assert answer["degraded_reason"] == "database"
    assert ask(client)["context"]


def test_search_that_waited_is_not_followed_by_a_second_wait(client: APIClient) -> None:
    with psycopg.connect(**_plain_parameters()) as other:
        other.execute("LOCK TABLE memory_servedchange IN ACCESS EXCLUSIVE MODE")
        answer = ask(client, "Cancel a third flight")
    assert (answer["degraded_reason"], answer["retrieval_id"]) == ("database", None)
    assert not Retrieval.objects.filter(task="Cancel a third flight").exists()


def test_search_under_a_key_that_waited_is_503_and_not_stored(client: APIClient) -> None:
    with psycopg.connect(**_plain_parameters()) as other:
        other.execute("LOCK TABLE memory_servedchange IN ACCESS EXCLUSIVE MODE")
        refused = client.post("/api/v1/retrieve", {"task": TASK}, format="json", HTTP_IDEMPOTENCY_KEY="waited")
    again = client.post("/api/v1/retrieve", {"task": TASK}, format="json", HTTP_IDEMPOTENCY_KEY="waited")
    assert (refused.status_code, refused["Retry-After"]) == (503, "5")
    assert (again.status_code, bool(again.json()["context"])) == (200, True)


def test_connection_lost_after_a_wait_is_not_tried_again(client: APIClient) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    connection.health_check_done = False  # type: ignore[attr-defined]  # as before every request
    ending = threading.Timer(1.0, _end_backend, [pid])
    ending.start()
    with pytest.raises(OperationalError):
        read_prepared("SELECT pg_sleep(3)", {})
    ending.join()
    connection.close()


def _end_backend(pid: int) -> None:
    with psycopg.connect(**_plain_parameters()) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_new_connections_leave_no_class_behind(client: APIClient) -> None:
    """Psycopg never forgets the class of a dumper; one for each connection took 3 kB every time."""
    classes = []
    for _ in range(5):
        connection.close()
        assert read_prepared("SELECT 1", {}) == [(1,)]
        classes.append(len(_QueryVectorDumper.__subclasses__()))
    assert classes == [1] * 5


@pytest.fixture
def service(settings: Any) -> Iterator[EmbeddingService]:
    service = EmbeddingService()
    settings.ERL_EMBEDDER = f"{service.base_url}?model=new&dimensions=2"
    yield service
    forget_embedders()


def test_embedder_killed(client: APIClient, service: EmbeddingService) -> None:
    forget_embedders()
    call_command("reembed", verbosity=0)
    service.stop()
    answers = [ask(client, f"{TASK} number {number}") for number in range(5)]
    assert {(answer["mode"], answer["degraded_reason"]) for answer in answers} == {("lexical", "embedder")}
    assert all(answer["context"] for answer in answers)


def test_model_switched_while_agents_ask(client: APIClient, project: Project, service: EmbeddingService) -> None:
    forget_embedders()
    done = threading.Event()
    answers: list[dict[str, Any]] = []
    failures: list[BaseException] = []

    def keep_asking(number: int) -> None:
        mine = APIClient()
        mine.credentials(**client._credentials)  # type: ignore[attr-defined]
        try:
            while not done.is_set():
                answers.append(ask(mine, f"{TASK} number {number} {len(answers)}"))
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    agents = [threading.Thread(target=keep_asking, args=(number,)) for number in range(2)]
    for agent in agents:
        agent.start()
    try:
        call_command("reembed", verbosity=0)
        assert HeuristicEmbedding.objects.filter(embedding_model_id="new@2", served=True).exists()
        wait_until(lambda: len(answers) >= 20)
    finally:
        done.set()
        for agent in agents:
            agent.join(30)
        service.stop()
    assert failures == []
    assert all(answer["context"] for answer in answers)


def _plain_parameters() -> dict[str, Any]:
    parameters: dict[str, Any] = connection.get_connection_params()
    return {
        name: value
        for name, value in parameters.items()
        if name not in ("cursor_factory", "context", "prepare_threshold")
    }
