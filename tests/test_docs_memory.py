"""docs/memory.md: its snippets run, as far as they can without a provider's key."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.retrieval.answers import retrieve
from memory.retrieval.llm_ranking import DEADLINE_SECONDS
from memory.retrieval.question import Question
from memory.runs.models import Trajectory
from tests.factories import approve_card_as_read, make_api_key, make_project

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "memory.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CURL, SHELL = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)[0], re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_python_snippets_compile(number: int) -> None:
    assert compile(PYTHON[number], "docs/memory.md", "exec").co_names


def test_snippets_use_only_what_the_first_one_defines() -> None:
    defined = set(re.findall(r"^def (\w+)", PYTHON[0], re.MULTILINE))

    assert {"get_memory", "record_episode"} <= defined
    assert all("get_memory(" in snippet and "record_episode(" in snippet for snippet in PYTHON[1:])


@pytest.mark.slow
def test_plain_http_and_shell_snippets_work(stack: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new = make_api_key(project=make_project(reflect_on_record=False))  # no worker writes while the test ends
    monkeypatch.setenv("ERL_URL", stack.base_url)
    monkeypatch.setenv("ERL_API_KEY", new.token)
    names: dict[str, Any] = {}
    exec(compile(PYTHON[0], "docs/memory.md", "exec"), names)  # noqa: S102 - our own documentation

    run(CURL, tmp_path)
    approve_card_as_read(MistakeCard.objects.get(), by=Actor(label="user:ana"))
    text, retrieval_id = names["get_memory"]("Cancel EHGLP3", "airline.cancel", "travel-bot")
    here = retrieve(
        Question(
            project=new.api_key.project,
            task="Cancel EHGLP3",
            task_id="airline.cancel",
            agent="travel-bot",
            by=Actor(label="user:ana"),
        )
    )
    assert here.context == text  # the same bytes in another process, before the run is recorded
    names["record_episode"]("Cancel EHGLP3", "airline.cancel", "travel-bot", retrieval_id, 1.0, successes=["Asked."])
    run(SHELL, tmp_path, TASK="Cancel it", TASK_ID="airline.cancel")

    assert "Read the fare class and the time of booking first." in text.replace(" (Check", ". (Check")
    assert str(Trajectory.objects.get(task="Cancel EHGLP3").retrieval_id) == retrieval_id
    assert "seen 1×" in (tmp_path / "system-prompt.txt").read_text()


def test_agent_goes_on_without_its_memory(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("ERL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ERL_API_KEY", "erl_live_x")
    names: dict[str, Any] = {}
    exec(compile(PYTHON[0], "docs/memory.md", "exec"), names)  # noqa: S102 - our own documentation

    assert names["get_memory"]("t", "f", "a") == ("", None)
    assert names["record_episode"]("t", "f", "a", None, 1.0) is None
    assert "The run was not recorded" in caplog.text


def test_client_waits_longer_than_the_server_waits_for_a_model() -> None:
    (timeout,) = re.findall(r"timeout=(\d+)", PYTHON[0])

    assert int(timeout) > DEADLINE_SECONDS


def run(script: str, folder: Path, **variables: str) -> None:
    command = ["bash", "-euc", script]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60, env={**os.environ, **variables})
