"""Claims that cannot be shared, and the fence."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from reflection.errors import LostClaim
from reflection.jobs.queue import extend_lease, fail, finish, postpone
from reflection.reflectors.models import Reflection
from tests.factories import make_project, make_reflection, make_trajectory
from tests.reflection.queueing import Status, claim, claimed_twice, expire_lease, in_threads

pytestmark = pytest.mark.django_db


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


def test_claim_without_an_id_takes_runs_with_lessons_last_for_an_hour() -> None:
    long_ago, lately = (timezone.now() - timedelta(minutes=minutes) for minutes in (90, 2))
    now_due = make_reflection()
    guided = make_reflection(goes_last=True, available_at=lately)
    waited = make_reflection(goes_last=True, available_at=long_ago)

    assert [claim(owner="w") for _ in range(3)] == [waited, now_due, guided]


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


def test_claim_after_the_last_attempt_marks_it_dead(settings: Any) -> None:
    settings.ERL_REFLECTION_MAX_ATTEMPTS = 2
    poison = make_reflection()
    for _ in range(2):
        claim(poison.pk, owner="w")
        expire_lease(poison)

    assert claim(poison.pk, owner="w") is None

    poison.refresh_from_db()
    assert (poison.status, poison.attempts, poison.last_error_code) == (Status.DEAD, 2, "worker_lost")
    assert "most recently on attempt 2" in poison.last_error
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


@pytest.mark.parametrize(
    "write",
    [
        finish,
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
