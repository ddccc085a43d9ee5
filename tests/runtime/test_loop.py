"""A run from the user's message to its trajectory."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.trust.erasure import erase_trajectory
from reflection.llm.base import ProviderError
from reflection.llm.models import ModelCall
from runtime.limits import Limits
from runtime.models.conversations import Message
from runtime.models.runs import Run
from tests.runtime.running import BY, Script, Turn, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db


def test_run_ends_with_the_models_answer() -> None:
    run = make_run(make_agent(system="You help."))

    go_on(run, Script("It is on its way."))

    assert (run.status, run.stop_reason) == (Run.Status.SUCCEEDED, "end_turn")
    assert [(each.role, each.content) for each in run.messages.all()] == [
        ("user", "Where is order 1?"),
        ("assistant", "It is on its way."),
    ]


def test_finished_run_is_a_trajectory() -> None:
    run = make_run(make_agent(tools=["send_message"]))

    go_on(run, Script([("send_message", {"message": "Looking."})], "It is on its way."))

    assert run.trajectory is not None
    assert run.trajectory.task == "Where is order 1?"
    assert [step["action"] and step["action"]["name"] for step in run.trajectory.steps] == ["send_message", None]
    assert run.trajectory.retrieval_id == run.retrieval_id


@pytest.mark.parametrize(
    ("turn", "stop_reason", "outcome"),
    [
        (ProviderError("No key.", transient=False, status=401), "model_failed", "unknown"),
        ([("send_message", {"message": "Looking."})], "max_steps", "failure"),
    ],
)
def test_failed_run_counts_as_a_failure_where_the_agent_failed(turn: Turn, stop_reason: str, outcome: str) -> None:
    run = make_run(make_agent(tools=["send_message"], limits=Limits(max_steps=1)))

    go_on(run, Script(turn))

    assert run.trajectory is not None
    assert (run.status, run.stop_reason, run.trajectory.outcome) == ("failed", stop_reason, outcome)


def count_statements(steps: int) -> int:
    """Return how many statements a run takes that calls a tool in each step but the last."""
    run = make_run(make_agent(tools=["send_message"], name=f"agent-{steps}"))
    script = Script(*[[("send_message", {"message": "Looking."})]] * (steps - 1), "It is on its way.")
    with CaptureQueriesContext(connection) as captured:
        go_on(run, script)
    assert run.steps_taken == steps
    return len(captured)


def test_step_with_a_call_takes_no_more_statements_than_known() -> None:
    assert count_statements(4) - count_statements(3) == 62


def test_erasure_of_the_trajectory_takes_the_run_along() -> None:
    run = make_run(make_agent(tools=["send_message"]))
    go_on(run, Script([("send_message", {"message": "Looking."})], "It is on its way."))
    assert run.trajectory is not None

    erase_trajectory(run.trajectory, by=BY)

    assert not Run.objects.filter(pk=run.pk).exists()
    assert not Message.objects.exists()
    assert not ModelCall.objects.exists()
