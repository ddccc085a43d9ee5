"""One live row for a run, however often it is asked for."""

from typing import Any

import pytest
import structlog
from django.db import transaction

from memory.ids import uuid7
from memory.intake.recording import record_trajectory, report_outcome
from memory.projects.actors import Actor
from reflection.errors import StillQueued
from reflection.reflectors.models import Reflection
from reflection.reflectors.requests import enqueue_reflection, requeue_reflection
from tests.factories import make_project, make_reflection, make_retrieval, make_trajectory
from tests.reflection.queueing import BY, Status, in_threads

pytestmark = pytest.mark.django_db


def test_enqueue_writes_a_row_that_can_be_claimed() -> None:
    trajectory = make_trajectory()

    reflection = enqueue_reflection(trajectory, by=BY, request_id="r-1", traceparent="00-trace")

    assert reflection in Reflection.objects.due()
    assert (reflection.status, reflection.requested_by, reflection.request_id, reflection.traceparent) == (
        Status.QUEUED,
        "key:test",
        "r-1",
        "00-trace",
    )


@pytest.mark.parametrize(("arm", "given"), [("stable", True), ("holdout", False)])
def test_reflection_on_a_run_that_was_given_lessons_goes_last(arm: str, given: bool) -> None:
    project = make_project()
    answer = make_retrieval(project=project, arm=arm, injected_ids=[uuid7()] if given else [])

    reflection = enqueue_reflection(make_trajectory(project=project, retrieval=answer), by=BY)

    assert reflection.goes_last == given


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RETRY, Status.DEFERRED_BUDGET])
def test_enqueue_returns_the_live_reflection_of_the_run(status: str) -> None:
    live = make_reflection(status=status)

    again = enqueue_reflection(live.trajectory, by=BY)

    assert again == live
    assert Reflection.objects.count() == 1


@pytest.mark.parametrize("status", [Status.DONE, Status.DEAD])
def test_enqueue_after_the_end_makes_a_new_row(status: str) -> None:
    finished = make_reflection(status=status)

    again = enqueue_reflection(finished.trajectory, by=BY)

    assert again != finished


def test_enqueue_rolled_back_leaves_nothing() -> None:
    trajectory = make_trajectory()

    with transaction.atomic():
        enqueue_reflection(trajectory, by=BY)
        transaction.set_rollback(True)

    assert not Reflection.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_enqueue_by_many_at_once_makes_one_row() -> None:
    trajectory = make_trajectory()

    found = in_threads(8, lambda number: enqueue_reflection(trajectory, by=BY).pk)

    assert Reflection.objects.get().pk == found[0]
    assert set(found) == {found[0]}


def test_enqueue_costs_one_query(django_assert_num_queries: Any) -> None:
    trajectory = make_trajectory()

    with django_assert_num_queries(1):
        enqueue_reflection(trajectory, by=BY)


def test_recorded_run_is_queued_with_the_ids_of_its_request() -> None:
    project = make_project()

    with structlog.contextvars.bound_contextvars(request_id="req-7", traceparent="00-abc"):
        trajectory = record_trajectory(project, data={"task": "Book a flight"}, by=BY).trajectory

    reflection = Reflection.objects.get(trajectory=trajectory)
    assert (reflection.request_id, reflection.traceparent, reflection.requested_by) == ("req-7", "00-abc", "key:test")


@pytest.mark.parametrize(
    ("on_record", "asked", "expected"), [(True, None, 1), (False, None, 0), (True, False, 0), (False, True, 1)]
)
def test_recorded_run_is_queued_as_project_and_request_say(on_record: bool, asked: bool | None, expected: int) -> None:
    project = make_project(reflect_on_record=on_record)

    record_trajectory(project, data={"task": "Book a flight"}, by=BY, reflect=asked)

    assert Reflection.objects.count() == expected


def test_changed_outcome_queues_a_new_reflection() -> None:
    finished = make_reflection(status=Status.DONE)

    report_outcome(finished.trajectory, outcome="success", score=1.0, outcome_source="human", by=BY)

    assert Reflection.objects.live().filter(trajectory=finished.trajectory).count() == 1


def test_requeue_of_a_dead_reflection_makes_a_fresh_row_in_the_name_of_who_asked() -> None:
    dead = make_reflection(status=Status.DEAD, attempts=5, last_error_code="worker_lost", request_id="r-1")

    again = requeue_reflection(dead, by=Actor(label="user:ana"))

    dead.refresh_from_db()
    assert (again.status, again.attempts, again.requested_by, again.request_id) == (Status.QUEUED, 0, "user:ana", "r-1")
    assert dead.status == Status.DEAD


def test_requeue_of_a_live_reflection_is_refused() -> None:
    live = make_reflection(status=Status.RETRY)

    with pytest.raises(StillQueued, match="Wait until it is finished"):
        requeue_reflection(live, by=BY)
