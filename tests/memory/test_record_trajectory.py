"""Recording runs."""

from typing import Any
from uuid import uuid4

import pytest
from django.dispatch import Signal

from memory.errors import DuplicateExternalId, InvalidSteps, UnknownRetrieval
from memory.intake.recording import record_trajectory, report_outcome, trajectory_recorded
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import make_project, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db

AGENT = Actor(label="key:agent")
RUN = {
    "task": "Cancel the booking of a customer",
    "steps": [{"action": 'cancel_reservation({"reservation_id": "EHGLP3"})', "observation": "Error: not allowed"}],
    "outcome": "failure",
    "score": 0.0,
    "outcome_source": "environment",
    "external_id": "run-1",
}


def record(project: Project, **changes: Any) -> Trajectory:
    return record_trajectory(project, data=RUN | changes, by=AGENT).trajectory


class Heard:
    """A receiver that remembers what it was sent."""

    def __init__(self) -> None:
        self.signals: list[dict[str, Any]] = []

    def __call__(self, signal: Signal, **sent: Any) -> None:
        self.signals.append(sent)


@pytest.fixture
def heard() -> Any:
    receiver = Heard()
    trajectory_recorded.connect(receiver, weak=False)
    yield receiver
    trajectory_recorded.disconnect(receiver)


def test_record_stores_steps_in_normal_form() -> None:
    trajectory = record(make_project())

    trajectory.refresh_from_db()
    assert trajectory.steps == [
        {
            "index": 1,
            "thought": "",
            "action": {"name": "cancel_reservation", "arguments": {"reservation_id": "EHGLP3"}},
            "observation": "Error: not allowed",
            "error": "",
        }
    ]


def test_record_of_the_same_run_again_returns_the_first() -> None:
    project = make_project()
    first = record(project)

    again = record_trajectory(project, data=RUN, by=AGENT)

    assert (again.trajectory.pk, again.created) == (first.pk, False)
    assert Trajectory.objects.count() == 1


def test_record_of_another_run_under_the_same_external_id_is_refused() -> None:
    project = make_project()
    first = record(project)

    with pytest.raises(DuplicateExternalId, match=str(first.pk)):
        record(project, task="Something else")


def test_record_after_a_later_outcome_is_still_the_same_run() -> None:
    project = make_project()
    first = record(project)
    report_outcome(first, outcome="success", score=1.0, outcome_source="human", by=AGENT)

    assert record(project).pk == first.pk


def test_same_external_id_in_another_project_is_another_run() -> None:
    assert record(make_project()).pk != record(make_project()).pk


def test_record_redacts_before_it_writes() -> None:
    trajectory = record(make_project(), summary="logged in with ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")

    trajectory.refresh_from_db()
    assert "ghp_a1B2" not in trajectory.summary
    assert sum(trajectory.redactions.values()) == 1


def test_record_links_the_answer_the_run_was_given() -> None:
    project = make_project()
    retrieval = make_retrieval(project=project)

    assert record(project, retrieval_id=retrieval.pk).retrieval == retrieval


def test_record_with_an_answer_of_another_project_is_refused() -> None:
    with pytest.raises(UnknownRetrieval, match="POST /retrieve"):
        record(make_project(), retrieval_id=make_retrieval().pk)


def test_record_with_an_unknown_answer_is_refused() -> None:
    with pytest.raises(UnknownRetrieval):
        record(make_project(), retrieval_id=uuid4())


def test_record_with_unreadable_steps_names_the_place() -> None:
    with pytest.raises(InvalidSteps, match=r"steps\[0\]"):
        record(make_project(), steps=[42])


def test_record_announces_the_run_once(heard: Heard) -> None:
    project = make_project()
    record(project)
    record(project)

    assert [sent["reflect"] for sent in heard.signals] == [True]


def test_project_that_does_not_reflect_says_so(heard: Heard) -> None:
    record(make_project(reflect_on_record=False))

    assert [sent["reflect"] for sent in heard.signals] == [False]


def test_request_overrides_the_project(heard: Heard) -> None:
    record_trajectory(make_project(reflect_on_record=False), data=RUN, by=AGENT, reflect=True)

    assert [sent["reflect"] for sent in heard.signals] == [True]


def test_late_outcome_is_stored_and_announced(heard: Heard) -> None:
    trajectory = make_trajectory(outcome="unknown", score=None)

    report_outcome(trajectory, outcome="success", score=0.9, outcome_source="test", by=AGENT)

    trajectory.refresh_from_db()
    assert (trajectory.outcome, trajectory.score, trajectory.outcome_source) == ("success", 0.9, "test")
    assert len(heard.signals) == 1


def test_late_outcome_reported_twice_is_announced_once(heard: Heard) -> None:
    trajectory = make_trajectory(outcome="unknown", score=None)
    report_outcome(trajectory, outcome="success", score=0.9, outcome_source="test", by=AGENT)

    report_outcome(trajectory, outcome="success", score=0.9, outcome_source="test", by=AGENT)

    assert len(heard.signals) == 1
