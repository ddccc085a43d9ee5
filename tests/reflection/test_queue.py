"""How a claim ends: failed, postponed, given back; and how long the rest waits."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from memory.projects.models import Project
from reflection.errors import LostClaim
from reflection.jobs.queue import backoff_seconds, fail, finish, postpone, release_claims
from reflection.reflectors.models import Reflection
from tests.factories import make_reflection, make_trajectory
from tests.reflection.queueing import Status, claim, claimed_twice

pytestmark = pytest.mark.django_db


def test_fail_puts_a_transient_failure_back_for_later() -> None:
    claimed = claim(make_reflection().pk, owner="w")
    assert claimed is not None

    status = fail(claimed, code="rate_limited", message="Too many.", transient=True, retry_after_seconds=60)

    claimed.refresh_from_db()
    assert status == claimed.status == Status.RETRY
    assert timedelta(seconds=58) < claimed.available_at - timezone.now() < timedelta(seconds=67)
    assert (claimed.last_error_code, claimed.last_error, claimed.lease_until) == ("rate_limited", "Too many.", None)


def test_claim_after_postponing_is_fenced_from_the_worker_that_hung() -> None:
    first, second = claimed_twice()
    postpone(second)
    third = claim(first.pk, owner="third")
    assert third is not None

    with pytest.raises(LostClaim):
        finish(first)
    finish(third)

    assert Reflection.objects.get(pk=first.pk).status == Status.DONE


def test_release_claims_gives_back_what_one_worker_held() -> None:
    held, others = make_reflection(), make_reflection()
    claim(held.pk, owner="a@host/1/7")
    claim(others.pk, owner="a@host/11/8")

    released = release_claims(["a@host/1/7"])

    held.refresh_from_db()
    others.refresh_from_db()
    assert released == [(held.pk, "reflection")]
    assert (held.status, others.status) == (Status.RETRY, Status.RUNNING)


def test_job_given_back_after_its_last_attempt_is_dead_of_its_workers() -> None:
    held = make_reflection(attempts=4)
    claim(held.pk, owner="a@host/1/7")
    release_claims(["a@host/1/7"])

    claim(held.pk, owner="a@host/1/8")

    held.refresh_from_db()
    assert (held.status, held.attempts, held.last_error_code) == (Status.DEAD, 5, "worker_lost")
    assert "attempt 5" in held.last_error


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
