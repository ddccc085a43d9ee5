"""A run of an agent, from the lessons it is given to the record of how it went, against the real server."""

import pytest
from erl_client import ERL, current_run

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import make_heuristic

TASK = "Cancel reservation EHGLP3 and refund it."
MESSAGES = [
    {"role": "system", "content": "You are an airline agent."},
    {"role": "user", "content": TASK},
    {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_reservation", "arguments": '{"id": "EHGLP3"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "basic economy"},
    {"role": "assistant", "content": "It cannot be cancelled."},
]


def test_run_is_given_lessons_and_recorded_with_its_outcome(erl: ERL, project: Project) -> None:
    heuristic = make_heuristic(
        project=project,
        status="approved",
        task_id="airline",
        trigger="When asked to cancel a reservation and refund it",
        guideline="Read the fare class first.",
    )
    embed_heuristics([heuristic.pk])

    with erl.run(TASK, family="airline", tags=("test",)) as run:
        run.messages(MESSAGES)
        run.success(score=1.0, source="test")

    assert "Read the fare class first." in run.context
    assert erl.flush()
    recorded = Trajectory.objects.get()
    assert str(recorded.retrieval_id) == run.retrieval_id
    assert (recorded.task, recorded.task_id, recorded.tags) == (TASK, "airline", ["test"])
    assert (recorded.outcome, recorded.score, recorded.outcome_source) == ("success", 1.0, "test")
    assert recorded.started_at is not None
    assert recorded.ended_at is not None
    calls = [step["action"]["name"] for step in recorded.steps if step["action"]]
    assert calls == ["get_reservation", "respond"]
    assert [step["observation"] for step in recorded.steps][1] == "basic economy"


def test_exception_is_recorded_as_a_failure_and_goes_on(erl: ERL) -> None:
    def agent() -> None:
        with erl.run(TASK) as run:
            run.step("get_reservation", {"id": "EHGLP3"}, observation={"cabin": "basic"})
            raise KeyError("fare")

    with pytest.raises(KeyError, match="fare"):
        agent()

    assert erl.flush()
    recorded = Trajectory.objects.get()
    assert recorded.outcome == "failure"
    assert recorded.steps[0]["observation"] == '{"cabin": "basic"}'
    assert recorded.steps[-1]["error"] == "KeyError: 'fare'"


def test_stopped_run_has_no_known_outcome(erl: ERL) -> None:
    with pytest.raises(KeyboardInterrupt), erl.run(TASK):
        raise KeyboardInterrupt

    assert erl.flush()
    assert Trajectory.objects.get().outcome == "unknown"


def test_outcome_that_was_told_stands_after_an_exception(erl: ERL) -> None:
    def agent() -> None:
        with erl.run(TASK) as run:
            run.success()
            raise RuntimeError("The terminal is gone.")

    with pytest.raises(RuntimeError, match="terminal"):
        agent()

    assert erl.flush()
    assert Trajectory.objects.get().outcome == "success"


def test_decorated_function_is_a_run_of_its_task(erl: ERL) -> None:
    @erl.learns(family="airline")
    def solve(attempt: int, task: str) -> str:
        run = current_run()
        assert run is not None
        run.success(score=0.9, source="judge")
        return f"Answer {attempt}"

    assert solve(1, task=TASK) == "Answer 1"

    assert current_run() is None
    assert erl.flush()
    recorded = Trajectory.objects.get()
    assert (recorded.task, recorded.task_id, recorded.outcome) == (TASK, "airline", "success")
    assert recorded.steps[0]["action"] == {"name": "respond", "arguments": {"content": "Answer 1"}}


def test_run_and_those_it_calls_are_of_its_user(erl: ERL) -> None:
    with erl.run(TASK, user_id="ana"), erl.run("Look the fare up"):
        pass

    assert erl.flush()
    assert list(Trajectory.objects.values_list("user_id", flat=True)) == ["ana", "ana"]


def test_user_of_all_runs_comes_from_the_environment(erl: ERL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERL_USER_ID", "bob")
    with ERL() as client:
        with client.run(TASK):
            pass
        assert client.flush()

    assert Trajectory.objects.get().user_id == "bob"
