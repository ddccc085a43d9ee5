"""Periodic work: what the scheduler asks for, and what becomes of it when a piece fails."""

from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from erl_site.tasks import every_minute, often, run_each
from memory.api.models import IdempotencyRecord
from memory.retrieval.models import TermChange
from reflection.jobs.models import WorkerHeartbeat
from reflection.jobs.periodic import run_periodic_work
from tests.factories import make_heuristic, make_idempotency_record

pytestmark = pytest.mark.django_db

ENTRIES = settings.CELERY_BEAT_SCHEDULE


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_scheduler_names_tasks_of_a_queue_that_workers_serve(entry: dict[str, Any]) -> None:
    current_app.loader.import_default_modules()
    assert entry["task"] in current_app.tasks
    assert settings.CELERY_TASK_ROUTES[entry["task"]]["queue"] in settings.CELERY_TASK_QUEUES


def test_work_goes_on_after_a_piece_that_fails() -> None:
    calls: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ExceptionGroup) as failure:
        run_each((lambda: calls.append("before"), fail, lambda: calls.append("after")))

    assert calls == ["before", "after"]
    assert [type(error) for error in failure.value.exceptions] == [ValueError]


def test_sessions_that_ended_are_deleted() -> None:
    now = timezone.now()
    for key, hours in (("ended", -1), ("open", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now + timedelta(hours=hours))

    run_periodic_work()

    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]


def test_expired_idempotency_records_are_deleted() -> None:
    make_idempotency_record(expires_at=timezone.now() - timedelta(seconds=1))
    kept = make_idempotency_record()

    every_minute()

    assert IdempotencyRecord.objects.get() == kept


def test_vectors_that_are_missing_are_made() -> None:
    heuristic = make_heuristic()

    often()

    assert heuristic.embeddings.exists()


def test_words_that_came_into_service_are_counted() -> None:
    heuristic = make_heuristic(status="approved")
    TermChange.objects.create(project_id=heuristic.project_id, sign=1, term_ids=[7])

    often()

    assert not TermChange.objects.exists()


def test_workers_that_are_long_gone_are_forgotten() -> None:
    WorkerHeartbeat.objects.create(name="gone", seen_at=timezone.now() - timedelta(days=2))
    WorkerHeartbeat.objects.create(name="here")

    every_minute()

    assert WorkerHeartbeat.objects.get().name == "here"
