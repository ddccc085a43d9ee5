"""What an agent says about a run, as plain JSON that is small enough to record."""

import dataclasses
import json
from hashlib import sha256
from typing import Any

import pytest
from erl_client import ERL
from erl_client.plain import MAX_BODY_BYTES, as_plain, cut, fit
from erl_client.runs import Run

from memory.runs.models import Trajectory


@dataclasses.dataclass
class Point:
    x: float


def test_values_of_any_kind_become_plain_json() -> None:
    value = {"a": Point(1.5), 2: {"s"}, "nan": float("nan"), "bytes": b"x", "nul": "a\x00b", "half": "\ud800"}

    plain = as_plain(value)

    assert plain == {"a": {"x": 1.5}, "2": ["s"], "nan": "nan", "bytes": "b'x'", "nul": "a\ufffdb", "half": "?"}


def test_value_that_contains_itself_comes_to_an_end() -> None:
    value: dict[str, Any] = {}
    value["self"] = value

    assert json.dumps(as_plain(value))


def test_long_text_is_cut_with_its_length_and_hash() -> None:
    text = "a" * 5_000 + "b" * 5_000

    short = cut(text, 1_000)

    assert len(short) == 1_000
    assert short.startswith("aaa")
    assert short.endswith("bbb")
    assert f"10,000 characters, sha256 {sha256(text.encode()).hexdigest()[:16]}" in short


def test_run_of_very_many_steps_keeps_its_beginning_and_its_end() -> None:
    steps = [{"index": number, "observation": f"step {number}"} for number in range(1, 5_001)]

    fitted = fit({"task": "t", "steps": steps})["steps"]

    assert len(fitted) == 2_000
    assert (fitted[0]["observation"], fitted[-1]["observation"]) == ("step 1", "step 5000")
    assert "3,001 steps of 5,000 left out" in fitted[1_333]["observation"]
    assert [step["index"] for step in fitted] == list(range(1, 2_001))


def test_run_that_is_too_long_is_recorded_with_marks(erl: ERL) -> None:
    with erl.run("t" * 70_000, family="f" * 300) as run:
        for number in range(50):
            run.step("read", {"file": "x" * 100_000}, observation=f"{number}" + "é" * 100_000)
        run.tools = [{"name": f"tool{number}"} for number in range(600)]
        run.success()

    assert len(json.dumps(run.body(), ensure_ascii=False).encode()) <= MAX_BODY_BYTES
    assert erl.flush()
    recorded = Trajectory.objects.get()
    assert len(recorded.steps) == 50
    assert "[… cut: the whole has 100," in recorded.steps[49]["observation"]


def test_messages_in_no_known_form_are_kept_as_texts() -> None:
    run = Run("task")
    run.messages([{"role": "user", "content": "Hello"}, {"weather": "fine"}, "?"])

    said = "\n".join(step["observation"] for step in run.body()["steps"])

    assert "Hello" in said
    assert '{"weather": "fine"}' in said


@pytest.mark.parametrize("score", [1.5, -1, float("nan"), 0.0])
def test_score_that_cannot_be_recorded_is_kept_in_the_metadata(score: float) -> None:
    run = Run("task")
    run.success(score=score, source="a hunch")

    body = run.body()

    assert (body["outcome"], body["outcome_source"], body.get("score")) == ("success", "agent", None)
    assert body["metadata"] == {"score": str(score), "source": "a hunch"}
