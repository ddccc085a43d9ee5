"""The queue: one live row for a run, claims that cannot be shared, and the fence."""

import threading
from datetime import timedelta
from typing import Any

import pytest
import structlog
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from memory.models import Project
from memory.services.record_trajectory import record_trajectory
from memory.services.report_outcome import report_outcome
from memory.values import Actor
from reflection.errors import LostClaim, StillQueued
from reflection.models import Reflection
from reflection.queue import (
    backoff_seconds,
    claim,
    enqueue_reflection,
    extend_lease,
    fail,
    finish,
    postpone,
    release_claims,
    requeue_reflection,
)
from tests.factories import make_project, make_reflection, make_trajectory

pytestmark = pytest.mark.django_db

BY = Actor(label="key:test")
Status = Reflection.Status


def expire_lease(reflection: Reflection) -> None:
    Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))


def in_threads(count: int, work: Any) -> list[Any]:
    """Run `work(number)` in threads that start together, each with a connection of its own."""
    results: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait(timeout=10)
            results[number] = work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return results


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


def test_enqueue_costs_two_queries(django_assert_num_queries: Any) -> None:
    trajectory = make_trajectory()

    with django_assert_num_queries(2):
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


def test_claim_holds_a_reflection_for_the_lease() -> None:
    queued = make_reflection()

    claimed = claim(queued.pk, owner="worker/1", lease_seconds=30)

    assert claimed is not None
    stored = Reflection.objects.get(pk=queued.pk)
    assert (stored.status, stored.attempts, stored.lease_owner) == (Status.RUNNING, 1, "worker/1")
    assert stored.started_at is not None
    assert stored.lease_until is not None
    assert timedelta(seconds=25) < stored.lease_until - timezone.now() < timedelta(seconds=31)
    assert (claimed.status, claimed.attempts) == (Status.RUNNING, 1)


def test_claim_without_an_id_takes_the_one_due_longest() -> None:
    make_reflection(available_at=timezone.now() - timedelta(minutes=1))
    oldest = make_reflection(status=Status.RETRY, available_at=timezone.now() - timedelta(minutes=2))

    claimed = claim(owner="w")

    assert claimed == oldest


def test_claim_takes_an_abandoned_reflection_before_waiting_ones() -> None:
    abandoned = make_reflection()
    claim(abandoned.pk, owner="dead worker")
    expire_lease(abandoned)
    make_reflection(available_at=timezone.now() - timedelta(minutes=2))

    claimed = claim(owner="w")

    assert claimed is not None
    assert (claimed.pk, claimed.attempts, claimed.lease_owner) == (abandoned.pk, 2, "w")


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RETRY, Status.DEFERRED_BUDGET])
def test_claim_leaves_what_is_not_due(status: str) -> None:
    early = make_reflection(status=status, available_at=timezone.now() + timedelta(seconds=30))

    assert claim(owner="w") is None
    assert claim(early.pk, owner="w") is None


@pytest.mark.parametrize("status", [Status.DONE, Status.DEAD])
def test_claim_leaves_what_is_finished(status: str) -> None:
    finished = make_reflection(status=status)

    assert claim(finished.pk, owner="w") is None


def test_claim_leaves_what_somebody_holds() -> None:
    held = make_reflection()
    claim(held.pk, owner="one")

    assert claim(held.pk, owner="two") is None
    assert claim(owner="two") is None


def test_claim_of_an_unknown_id_finds_nothing() -> None:
    assert claim(make_project().pk, owner="w") is None


def test_claim_after_the_last_attempt_marks_it_dead(settings: Any) -> None:
    settings.ERL_REFLECTION_MAX_ATTEMPTS = 2
    poison = make_reflection()
    for _ in range(2):
        claim(poison.pk, owner="w")
        expire_lease(poison)

    assert claim(poison.pk, owner="w") is None

    poison.refresh_from_db()
    assert (poison.status, poison.attempts, poison.last_error_code) == (Status.DEAD, 2, "worker_lost")
    assert "the last at attempt 2" in poison.last_error
    assert poison.finished_at is not None
    assert poison.lease_until is None


def test_claim_passes_over_a_dead_one_to_the_next(settings: Any) -> None:
    settings.ERL_REFLECTION_MAX_ATTEMPTS = 1
    poison = make_reflection()
    claim(poison.pk, owner="w")
    expire_lease(poison)
    good = make_reflection()

    assert claim(owner="w") == good


@pytest.mark.django_db(transaction=True)
def test_claim_by_many_at_once_gives_each_row_to_one() -> None:
    project = make_project()
    for _ in range(20):
        make_reflection(trajectory=make_trajectory(project=project))

    def take(number: int) -> list[Any]:
        taken = []
        while (claimed := claim(owner=f"w{number}")) is not None:
            taken.append(claimed.pk)
        return taken

    taken = [pk for part in in_threads(8, take) for pk in part]

    assert len(taken) == len(set(taken)) == 20
    assert set(Reflection.objects.values_list("attempts", flat=True)) == {1}


def test_extend_lease_prolongs_it() -> None:
    claimed = claim(make_reflection().pk, owner="w", lease_seconds=1)
    assert claimed is not None

    held = extend_lease(claimed, lease_seconds=60)

    claimed.refresh_from_db()
    assert held
    assert claimed.lease_until is not None
    assert claimed.lease_until - timezone.now() > timedelta(seconds=50)


def claimed_twice() -> tuple[Reflection, Reflection]:
    """The claims of a worker that hung and of the one that took over."""
    first = claim(make_reflection().pk, owner="hung")
    assert first is not None
    expire_lease(first)
    second = claim(first.pk, owner="next")
    assert second is not None
    return first, second


@pytest.mark.parametrize(
    "write",
    [
        lambda held: finish(held, heuristics_proposed=1),
        lambda held: fail(held, code="x", message="X.", transient=True),
        lambda held: fail(held, code="x", message="X.", transient=False),
        postpone,
    ],
    ids=["finish", "retry", "dead", "postpone"],
)
def test_fenced_worker_writes_nothing(write: Any) -> None:
    first, second = claimed_twice()

    with pytest.raises(LostClaim):
        write(first)

    second.refresh_from_db()
    assert (second.status, second.attempts, second.lease_owner) == (Status.RUNNING, 2, "next")


def test_fenced_worker_does_not_extend_the_lease() -> None:
    first, _ = claimed_twice()

    assert not extend_lease(first, lease_seconds=60)


def test_fail_puts_a_transient_failure_back_for_later() -> None:
    claimed = claim(make_reflection().pk, owner="w")
    assert claimed is not None

    status = fail(claimed, code="rate_limited", message="Too many.", transient=True, retry_after_seconds=60)

    claimed.refresh_from_db()
    assert status == claimed.status == Status.RETRY
    assert timedelta(seconds=58) < claimed.available_at - timezone.now() < timedelta(seconds=67)
    assert (claimed.last_error_code, claimed.last_error, claimed.lease_until) == ("rate_limited", "Too many.", None)


def test_fail_gives_up_after_the_last_attempt(settings: Any) -> None:
    settings.ERL_REFLECTION_MAX_ATTEMPTS = 1
    claimed = claim(make_reflection().pk, owner="w")
    assert claimed is not None

    assert fail(claimed, code="timeout", message="Slow.", transient=True) == Status.DEAD


def test_fail_gives_up_at_once_where_waiting_does_not_help() -> None:
    claimed = claim(make_reflection().pk, owner="w")
    assert claimed is not None

    assert fail(claimed, code="authentication", message="Check the key.", transient=False) == Status.DEAD


def test_postpone_does_not_count_the_attempt() -> None:
    claimed = claim(make_reflection().pk, owner="w")
    assert claimed is not None

    postpone(claimed)

    claimed.refresh_from_db()
    assert (claimed.status, claimed.attempts) == (Status.RETRY, 0)
    assert claimed in Reflection.objects.due()


def test_claim_after_postponing_is_fenced_from_the_worker_that_hung() -> None:
    first, second = claimed_twice()
    postpone(second)
    third = claim(first.pk, owner="third")
    assert third is not None

    with pytest.raises(LostClaim):
        finish(first, heuristics_proposed=1)
    finish(third, heuristics_proposed=0)

    assert Reflection.objects.get(pk=first.pk).status == Status.DONE


def test_release_claims_gives_back_what_one_worker_held() -> None:
    held, others = make_reflection(), make_reflection()
    claim(held.pk, owner="a@host/1/7")
    claim(others.pk, owner="a@host/11/8")

    released = release_claims("a@host/1/")

    held.refresh_from_db()
    others.refresh_from_db()
    assert released == 1
    assert (held.status, others.status) == (Status.RETRY, Status.RUNNING)


def test_backoff_grows_to_five_minutes_and_is_spread() -> None:
    drawn = {attempts: [backoff_seconds(attempts) for _ in range(200)] for attempts in (1, 4, 20)}

    assert all(1 <= seconds <= 2 for seconds in drawn[1])
    assert all(8 <= seconds <= 16 for seconds in drawn[4])
    assert all(150 <= seconds <= 300 for seconds in drawn[20])
    assert len({round(seconds, 2) for seconds in drawn[20]}) > 150


def test_backoff_is_never_earlier_than_the_provider_asked_for() -> None:
    assert all(backoff_seconds(1, retry_after_seconds=90) >= 90 for _ in range(200))


def test_oldest_due_age_is_that_of_the_longest_wait() -> None:
    project = Project.objects.create(slug="p", name="P")
    make_reflection(trajectory=make_trajectory(project=project), available_at=timezone.now() - timedelta(seconds=40))
    make_reflection(
        trajectory=make_trajectory(project=project), status=Status.DONE, available_at=timezone.now() - timedelta(days=9)
    )

    assert 39 < Reflection.objects.oldest_due_age_seconds() < 60


def test_oldest_due_age_counts_from_the_end_of_a_lease() -> None:
    held = make_reflection(available_at=timezone.now() - timedelta(hours=1))
    claim(held.pk, owner="w")
    Reflection.objects.filter(pk=held.pk).update(lease_until=Now() - timedelta(seconds=20))

    assert 19 < Reflection.objects.oldest_due_age_seconds() < 40


def test_oldest_due_age_is_zero_where_nothing_waits() -> None:
    make_reflection(available_at=timezone.now() + timedelta(hours=1))

    assert Reflection.objects.oldest_due_age_seconds() == 0
