"""What the client's tests share: the real server over HTTP, a key, and a spool of their own."""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from erl_client import ERL

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import LESSON
from tests.factories import make_api_key, make_heuristic, make_project
from tests.scripted_provider import ScriptedProvider

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test read or write what belongs to the person who runs it."""
    monkeypatch.setenv("ERL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def project(transactional_db: None) -> Project:
    return make_project(reflect_on_record=False)


@pytest.fixture
def erl(project: Project, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ERL]:
    """The client of an agent, set up as its user would."""
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project).token)
    monkeypatch.setenv("ERL_BUDGET_SECONDS", "60")  # what tests the budget has a client of its own
    with ERL() as client:
        yield client


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def make_lesson(project: Project) -> None:
    """Have a lesson that is approved and fits the task of the agents here."""
    trigger = "When asked to cancel a reservation"
    lesson = make_heuristic(project=project, status="approved", task_id="airline", trigger=trigger, guideline=LESSON)
    embed_heuristics([lesson.pk])


def recorded(erl: ERL) -> Trajectory:
    assert erl.flush(30)
    return Trajectory.objects.get()


def acts(run: Trajectory) -> list[dict[str, Any]]:
    """Return the steps in which the agent did something. The first step is often the question."""
    return [step for step in run.steps if step["action"]]


def actions(run: Trajectory) -> list[Any]:
    return [step["action"] for step in acts(run)]


def run_apart(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: a test of the browser may have left a loop in this one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, main).result()
