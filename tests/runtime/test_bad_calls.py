"""Calls and answers that no tool, row or trajectory can hold: the agent is told, and the run ends as any other."""

from typing import Any

import pytest

from memory.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS
from memory.runs.models import Trajectory
from tests.runtime.running import Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
TOOLS = ("send_message", "read_result", "conversation_search", "archival_insert", "archival_search")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("archival_search", {"query": "x", "count": 5.0}, "Nothing found."),
        ("archival_search", {"query": "x", "count": -1}, "count has to be a number from 1 to 200."),
        ("archival_insert", {"text": "x" * 20_001}, "The text has 20,001 characters; at most 20,000 can be saved"),
        ("archival_insert", {"text": "x", "tags": ["t" * 5_000]}, "Use at most 50 tags of 1 to 100"),
        ("archival_insert", {"text": "x", "tags": [""]}, "Use at most 50 tags of 1 to 100"),
        ("read_result", {"result": 4.0, "start": 1.0, "count": 2.0}, "en\n[2 characters follow"),
        ("conversation_search", {"query": "word " * 41_000}, "The arguments are not a JSON object that can be used."),
        ("", {}, "There is no tool"),
        ("long" * 1_000, {}, "There is no tool"),
    ],
    ids=["whole float", "count", "text", "long tag", "empty tag", "whole floats", "arguments", "no name", "long name"],
)
def test_call_that_cannot_be_as_it_is_gets_an_answer(name: str, arguments: dict[str, Any], said: str) -> None:
    run = make_run(make_agent(tools=TOOLS, window_tokens=1_000_000))
    go_on(run, Script([("send_message", {"message": "Wait."})], [(name, arguments)], "Done."))
    effect = run.effects.latest("id")

    assert run.status == "succeeded"
    assert said in (effect.result or effect.error)


def test_run_is_recorded_as_far_as_a_trajectory_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(make_agent(tools=TOOLS))
    monkeypatch.setattr("runtime.trajectories.MAX_STEPS", 2)
    go_on(run, Script([("n" * 300, {}), ("", {})], "Done."))

    names = [step["action"]["name"] for step in Trajectory.objects.get(pk=run.pk).steps]
    assert names == ["n" * MAX_NAME_CHARS, "unnamed"]


def test_answer_longer_than_a_text_of_a_trajectory_ends_the_run() -> None:
    run = make_run(make_agent())
    go_on(run, Script("so " * 70_000))

    assert run.status == "succeeded"
    assert len(Trajectory.objects.get(pk=run.pk).steps[0]["thought"]) == MAX_TEXT_CHARS
