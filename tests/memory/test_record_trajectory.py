"""Recording runs."""

from typing import Any

import pytest
from django.dispatch import Signal

from memory.errors import DuplicateExternalId, UnknownRetrieval
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


def test_record_with_an_answer_of_another_project_is_refused() -> None:
    with pytest.raises(UnknownRetrieval, match="POST /retrieve"):
        record(make_project(), retrieval_id=make_retrieval().pk)


def test_record_announces_the_run_once(heard: Heard) -> None:
    project = make_project()
    record(project)
    record(project)

    assert [sent["reflect"] for sent in heard.signals] == [True]


def test_late_outcome_reported_twice_is_announced_once(heard: Heard) -> None:
    trajectory = make_trajectory(outcome="unknown", score=None)
    report_outcome(trajectory, outcome="success", score=0.9, outcome_source="test", by=AGENT)

    report_outcome(trajectory, outcome="success", score=0.9, outcome_source="test", by=AGENT)

    assert len(heard.signals) == 1
