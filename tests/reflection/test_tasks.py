"""The Celery tasks, run in this process."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from reflection.reflectors.models import Reflection
from reflection.tasks import run_job
from tests.factories import make_reflection

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _rules(settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"


def test_time_limits_are_in_the_order_the_queue_relies_on(settings: Any) -> None:
    limits = [
        settings.ERL_REFLECTION_LEASE_SECONDS,
        settings.CELERY_TASK_SOFT_TIME_LIMIT,
        settings.CELERY_TASK_TIME_LIMIT,
        settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"],
    ]

    assert limits == sorted(set(limits))


def test_messages_are_acknowledged_late_one_at_a_time_and_leave_no_result(settings: Any) -> None:
    assert settings.CELERY_TASK_ACKS_LATE
    assert settings.CELERY_TASK_REJECT_ON_WORKER_LOST
    assert settings.CELERY_WORKER_PREFETCH_MULTIPLIER == 1
    assert settings.CELERY_TASK_IGNORE_RESULT
    assert settings.CELERY_ACCEPT_CONTENT == ["json"]
    assert not hasattr(settings, "CELERY_RESULT_BACKEND")


def test_broker_that_goes_away_does_not_cancel_reflections(settings: Any) -> None:
    assert settings.CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS is False


def test_message_runs_the_reflection_it_names() -> None:
    reflection = make_reflection()
    other = make_reflection()

    run_job(str(reflection.pk))

    reflection.refresh_from_db()
    other.refresh_from_db()
    assert (reflection.status, other.status) == (Reflection.Status.DONE, Reflection.Status.QUEUED)


def test_message_about_a_run_with_lessons_lets_the_others_go_first() -> None:
    guided = make_reflection(goes_last=True, available_at=timezone.now() - timedelta(minutes=2))
    other = make_reflection()

    run_job(str(guided.pk))

    assert _statuses(guided, other) == [Reflection.Status.QUEUED, Reflection.Status.DONE]
    run_job(str(guided.pk))
    assert _statuses(guided) == [Reflection.Status.DONE]


def test_message_about_a_run_with_lessons_that_waited_for_an_hour_runs_it() -> None:
    guided = make_reflection(goes_last=True, available_at=timezone.now() - timedelta(hours=2))
    other = make_reflection()

    run_job(str(guided.pk))

    assert _statuses(guided, other) == [Reflection.Status.DONE, Reflection.Status.QUEUED]


def test_message_of_a_job_that_is_gone_changes_nothing() -> None:
    assert run_job(str(uuid4())) is None


@pytest.mark.parametrize("garbage", ["", "1; DROP TABLE", "00000000"])
def test_message_leaves_a_message_it_does_not_understand(garbage: str) -> None:
    assert run_job(garbage) is None


def test_message_of_a_finished_one_changes_nothing() -> None:
    reflection = make_reflection()
    run_job(str(reflection.pk))
    before = Reflection.objects.values().get()

    run_job(str(reflection.pk))

    assert Reflection.objects.values().get() == before


def _statuses(*reflections: Reflection) -> list[str]:
    return [Reflection.objects.get(pk=one.pk).status for one in reflections]
