"""Lessons are looked up on a streaming replica: never old beyond the bound, and without an error when it fails."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connection
from pytest_django.plugin import DjangoDbBlocker

from erl_site.embedded import postgres, roles
from memory.curation.decisions import retire_heuristic
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from tests.factories import bearer, make_api_key, make_heuristic, make_project
from tests.replica import StreamingReplica, start_replica
from tests.servers import HOME
from tests.stack import Stack, database_url
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

MOST_SECONDS = 1.0
BY = Actor(label="user:ana")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    yield HOME / "replica"
    postgres.discard(HOME / "replica")


@pytest.fixture
def replica(home: Path, transactional_db: None) -> StreamingReplica:
    """The replica of the test before, unless that promoted it."""
    name = str(connection.settings_dict["NAME"])
    if (home / "data" / "standby.signal").exists():
        return StreamingReplica(home=home, url=postgres.ensure(home, durable=False, dbname=name))
    postgres.discard(home)
    return start_replica(HOME / "postgres", home, dbname=name)


@pytest.fixture(scope="module")
def web(broker: str, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Stack]:
    """A web server that may read a replica, whether or not there is one."""
    with django_db_blocker.unblock():
        connection.ensure_connection()
        primary = connection.settings_dict | {"USER": roles.APPLICATION}
    there = primary | {"HOST": str(postgres.socket_dir(HOME / "replica")), "PORT": postgres.PORT}
    stack = Stack(
        home=HOME,
        environment={
            "DATABASE_URL": database_url(primary),
            "ERL_REPLICA_URL": database_url(there),
            "ERL_REPLICA_MAX_LAG_SECONDS": str(MOST_SECONDS),
            "ERL_DATABASE_CONN_MAX_AGE": "600",
            "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
        },
    )
    stack.start_web()
    yield stack
    stack.kill_all()


class Agent:
    """Asks the web server for lessons."""

    def __init__(self, web: Stack, project: Project) -> None:
        self._url = f"{web.base_url}/api/v1/retrieve"
        self._headers = bearer(make_api_key(project=project).token)
        self.asked = 0

    def ask(self) -> dict[str, Any]:
        """Ask for a task that was not asked before."""
        self.asked += 1
        task = {"task": f"Cancel the flight of passenger {self.asked}"}
        answer = httpx.post(self._url, json=task, headers=self._headers, timeout=30)
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        assert not body["degraded"], body["degraded_reason"]
        return body

    def is_told(self, lesson: Heuristic) -> bool:
        return str(lesson.pk) in [item["id"] for item in self.ask()["items"]]


def serve(project: Project, guideline: str) -> Heuristic:
    trigger = "A passenger asks to cancel a flight"
    lesson = make_heuristic(project=project, status="approved", trigger=trigger, guideline=guideline)
    embed_heuristics([lesson.pk])
    return lesson


def wait_until_read(replica: StreamingReplica, agent: Agent) -> None:
    wait_until(lambda: agent.ask() and replica.count_readers(roles.APPLICATION) > 0)


def retire_unseen(replica: StreamingReplica, agent: Agent, project: Project) -> Heuristic | None:
    """Retire a lesson while the replica stands still, and return it if the agent is still told."""
    replica.resume()
    lesson = serve(project, f"Check fare class {agent.asked} first.")
    wait_until(lambda: agent.is_told(lesson))
    replica.pause()
    retire_heuristic(lesson, by=BY)
    return lesson if agent.is_told(lesson) else None


def test_replica_that_lags_is_read_no_longer_than_the_bound(web: Stack, replica: StreamingReplica) -> None:
    project = make_project()
    agent = Agent(web, project)
    wait_until_read(replica, agent)
    lesson = wait_until(lambda: retire_unseen(replica, agent, project))

    time.sleep(MOST_SECONDS)
    assert not agent.is_told(lesson)
    assert Retrieval.objects.filter(project=project).count() == agent.asked

    replica.resume()
    later = serve(project, "Name the fee before you cancel.")
    replica.pause()
    wait_until(lambda: agent.is_told(later))
    replica.resume()


def test_replica_that_is_gone_costs_no_answer(web: Stack, replica: StreamingReplica) -> None:
    project = make_project()
    lesson, agent = serve(project, "Check the fare class first."), Agent(web, project)
    wait_until_read(replica, agent)

    replica.stop()

    assert all(agent.is_told(lesson) for _ in range(5))
    retire_heuristic(lesson, by=BY)
    assert not agent.is_told(lesson)


def test_replica_that_was_promoted_is_read_no_longer_than_the_bound(web: Stack, replica: StreamingReplica) -> None:
    project = make_project()
    lesson, agent = serve(project, "Check the fare class first."), Agent(web, project)
    wait_until_read(replica, agent)

    replica.promote()
    retire_heuristic(lesson, by=BY)

    time.sleep(MOST_SECONDS)
    assert not agent.is_told(lesson)
