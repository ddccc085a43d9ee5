"""Agents of the OpenAI Agents SDK, with the real package, against the real server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.agent_answers import (
    ANSWER,
    CLOSE,
    LESSON,
    LOOK,
    SAY,
    TASK,
    chat_calls,
    chat_says,
    chat_streams,
    response_calls,
    response_says,
)
from tests.clients.broken_erl import BrokenErl, garbage
from tests.clients.conftest import actions, acts, make_lesson
from tests.factories import make_api_key
from tests.scripted_answers import fails
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


PROGRAM = Path(__file__).with_name("agents_sdk_program.py")
CLIENT = Path(__file__).parents[2] / "clients/python/src"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def program() -> Iterator[subprocess.Popen[str]]:
    """The process of the agents, outside the project's folder, where `agents` is the SDK."""
    environment = {**os.environ, "PYTHONPATH": str(CLIENT), "ERL_BUDGET_SECONDS": "60", "PYTHONSAFEPATH": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, PROGRAM], env=environment, **pipes) as running:
        yield running
        assert running.stdin is not None
        running.stdin.close()


@dataclass(frozen=True)
class Agents:
    """Plays scenarios of the program with one project's key and one model."""

    program: "subprocess.Popen[str]"
    url: str
    key: str
    provider: ScriptedProvider
    spool: Path

    def play(self, scenario: str, *, url: str = "", flush: bool = True) -> dict[str, Any]:
        """Return what the agent answered and the error that ended it, "" where there was none."""
        asked = {"scenario": scenario, "task": TASK, "url": url or self.url, "key": self.key, "spool": str(self.spool)}
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        print(json.dumps({**asked, "model_url": self.provider.openai_url, "flush": flush}), file=self.program.stdin)
        self.program.stdin.flush()
        played: dict[str, Any] = json.loads(self.program.stdout.readline())
        assert played.pop("flushed", True)
        return played


@pytest.fixture
def agents(
    program: "subprocess.Popen[str]", project: Project, live_server: Any, provider: ScriptedProvider, tmp_path: Path
) -> Agents:
    token = make_api_key(project=project).token
    return Agents(program, live_server.url, token, provider, tmp_path / "spool")


def test_agent_is_given_lessons_and_recorded(agents: Agents, project: Project, provider: ScriptedProvider) -> None:
    make_lesson(project)
    provider.script(response_calls(), response_says())

    played = agents.play("one_tool")

    assert played == {"answer": ANSWER, "error": ""}
    assert all(request.body["instructions"].startswith("Be kind.\n\n") for request in provider.requests)
    assert all(request.body["instructions"].count(LESSON) == 1 for request in provider.requests)
    run = Trajectory.objects.get()
    assert (run.task, run.task_id, run.agent, run.outcome) == (TASK, "airline", "travel", "unknown")
    assert (actions(run), acts(run)[0]["observation"]) == ([LOOK, SAY], "basic economy")
    assert run.retrieval_id is not None
    assert (run.model, run.tokens) == ("m-1", 30)


def test_agent_with_chat_completions_is_recorded(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(chat_calls(), chat_says())

    agents.play("chat_completions")

    assert actions(Trajectory.objects.get()) == [LOOK, SAY]


def test_agent_in_a_block_is_part_of_its_run(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(response_calls(), response_says())

    agents.play("open_run")

    stored = Trajectory.objects.get()
    assert (stored.outcome, stored.outcome_source, actions(stored)) == ("success", "test", [LOOK, SAY])


def test_tool_that_raises_is_an_error_of_its_step(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(response_calls("get_broken_reservation"), response_says())

    agents.play("broken_tool")

    first, second = acts(Trajectory.objects.get())
    assert first["action"]["name"] == "get_broken_reservation"
    assert "Error running tool" in first["error"]
    assert second["action"] == SAY


def test_model_that_fails_ends_the_run(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(response_calls(), fails(400, message="Overloaded.", headers=CLOSE))

    assert "Overloaded" in agents.play("one_tool")["error"]

    run = Trajectory.objects.get()
    assert (run.outcome, actions(run)) == ("failure", [LOOK])
    assert "Overloaded." in run.steps[-1]["error"]


def test_agent_that_takes_too_many_turns_fails(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(response_calls(), response_calls(call_id="call_2"))

    assert agents.play("two_turns_at_most")["error"].startswith("MaxTurnsExceeded")

    run = Trajectory.objects.get()
    assert (run.outcome, actions(run)) == ("failure", [LOOK, LOOK])


def test_agent_that_is_asked_after_an_error_has_not_failed(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(response_says())

    agents.play("after_an_error")

    run = Trajectory.objects.get()
    assert (run.outcome, actions(run), run.steps[-1]["error"]) == ("unknown", [SAY], "")


def test_agent_as_a_tool_has_a_run_with_its_caller_as_parent(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(response_calls("ask_expert", input="Which cabin?"), response_calls(), response_says("Basic."))
    provider.script(response_says())

    agents.play("agent_as_tool")

    called, caller = (Trajectory.objects.get(task=task) for task in ("Which cabin?", TASK))
    assert called.parent == caller
    assert [action["name"] for action in actions(called)] == ["get_reservation", "respond"]
    assert [action["name"] for action in actions(caller)] == ["ask_expert", "respond"]


def test_agents_side_by_side_have_runs_of_their_own(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(*[response_says()] * 3)

    assert agents.play("side_by_side") == {"answer": None, "error": ""}  # and no run is open after them

    runs = Trajectory.objects.order_by("task")
    assert [(run.task, actions(run)) for run in runs] == [(f"Task {n}", [SAY]) for n in range(3)]


def test_streamed_agent_is_recorded(agents: Agents, provider: ScriptedProvider) -> None:
    provider.script(chat_streams("It cannot ", "be cancelled."))

    agents.play("streamed")

    assert actions(Trajectory.objects.get()) == [SAY]


@pytest.mark.parametrize("away", [False, True], ids=["garbage", "away"])
def test_agent_goes_on_without_erl_and_is_recorded_later(
    away: bool, agents: Agents, provider: ScriptedProvider
) -> None:
    provider.script(chat_says(), chat_says())

    with BrokenErl(garbage) as broken:
        played = agents.play("chat_without_tools", url=NOWHERE if away else broken.url, flush=False)

    assert played == {"answer": ANSWER, "error": ""}
    assert not Trajectory.objects.exists()
    agents.play("chat_without_tools")  # with the same spool, where the first run waits
    assert [actions(run) for run in Trajectory.objects.all()] == [[SAY]] * 2
