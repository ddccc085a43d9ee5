"""The first screens of both READMEs run as they stand, against the real server and a scripted provider."""

import io
import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest
from erl_client import ERL
from erl_client.cli import main

from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from reflection.tasks import run_job
from tests.clients.agent_answers import ANSWER, TASK, chat_calls, chat_says
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "clients" / "python" / "README.md").read_text(encoding="utf-8")
FRONT_PAGE = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_past_requests_are_brought_with_the_lessons_that_served_them(erl: ERL) -> None:
    snippet = re.search(r"```python\n(def bring.*?)```", PAGE, re.DOTALL)
    assert snippet is not None
    names: dict[str, Any] = {}
    exec(compile(snippet[1], "README.md", "exec"), names)  # noqa: S102 - our own documentation
    lessons = {"fare": ("A ticket is to be cancelled", "Read the fare class first.", ["r1", "r2"])}

    for _ in range(2):
        names["bring"](erl, {"r1": "Cancel EHGLP3.", "r2": "Cancel my flight."}, lessons)

    lesson = Heuristic.objects.get(external_id="fare")
    assert (lesson.support, set(lesson.evidence.values_list("trajectory__external_id", flat=True))) == (2, {"r1", "r2"})


def test_first_snippet_records_its_run(erl: ERL, monkeypatch: pytest.MonkeyPatch) -> None:
    snippet = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    names: dict[str, Any] = {}
    with ScriptedProvider(answer("It cannot be cancelled.", input_tokens=10, output_tokens=5)) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        exec(compile(snippet, "README.md", "exec"), names)  # noqa: S102 - our own documentation
        with names["erl"], names["client"]:
            assert names["solve"]("Cancel EHGLP3.") == "It cannot be cancelled."
            assert names["erl"].flush()

    run = Trajectory.objects.get()
    assert (run.task, run.task_id, run.outcome, run.tokens) == ("Cancel EHGLP3.", "airline", "success", 15)
    assert run.retrieval_id is not None
    assert run.steps[-1]["action"] == {"name": "respond", "arguments": {"content": "It cannot be cancelled."}}


def agent(client: openai.OpenAI, system: str) -> str:
    """Work as the loop of a newcomer does, which knows nothing of ERL."""
    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": TASK}]
    while True:
        message = client.chat.completions.create(model="m", messages=messages).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            known = json.loads(call.function.arguments)["id"].isupper()  # type: ignore[union-attr]
            result = "basic economy" if known else "Error: reservation not found: ids are upper case"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def test_three_lines_of_the_front_page_give_the_next_run_a_lesson(
    erl: ERL, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.reflect_on_record = True
    project.save()
    snippet = compile(re.findall(r"```python\n(.*?)```", FRONT_PAGE, re.DOTALL)[0], "README.md", "exec")
    names: dict[str, Any] = {"ERL": ERL, "OpenAI": openai.OpenAI, "agent": agent, "system": "Be kind.\n", "task": TASK}
    script = (chat_calls(id="ehglp3"), chat_calls(call_id="call_2"), chat_says())
    with ScriptedProvider(*script, *script) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")

        first = dict(names)
        exec(snippet, first)  # noqa: S102 - our own documentation
        with first["client"], first["erl"]:
            assert first["answer"] == ANSWER
            assert first["erl"].flush(60)
        run_job(str(Reflection.objects.get().pk))
        monkeypatch.setattr("sys.stdin", io.StringIO("a\n"))
        assert main(["review"]) == 0
        lesson = Heuristic.objects.get(status="approved")
        embed_heuristics([lesson.pk])

        second = dict(names)
        exec(snippet, second)  # noqa: S102 - our own documentation
        with second["client"], second["erl"]:
            assert second["erl"].flush(60)

    assert "in capital letters" in second["run"].context
    assert all("in capital letters" in request.body["messages"][0]["content"] for request in provider.requests[3:])
    assert Trajectory.objects.get(retrieval_id=second["run"].retrieval_id).outcome == "success"
