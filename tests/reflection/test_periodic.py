"""Periodic work: what it does, and how often."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.utils import timezone

from memory.housekeeping import PeriodicWork
from reflection.jobs import periodic
from reflection.jobs.models import PeriodicRun

pytestmark = pytest.mark.django_db


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two pieces of work in place of all others, and the calls of them."""
    calls: list[str] = []
    monkeypatch.setattr(periodic, "_registered", {})
    periodic.register_periodic(
        PeriodicWork("often", timedelta(seconds=4), lambda: calls.append("often")),
        PeriodicWork("seldom", timedelta(hours=1), lambda: calls.append("seldom")),
    )
    return calls


def test_work_runs_once_in_its_period(calls: list[str]) -> None:
    periodic.run_due_work()
    periodic.run_due_work()

    assert calls == ["often", "seldom"]


def test_work_runs_again_after_its_period(calls: list[str]) -> None:
    periodic.run_due_work()
    PeriodicRun.objects.update(started_at=Now() - timedelta(minutes=1))

    periodic.run_due_work()

    assert calls == ["often", "seldom", "often"]


def test_all_work_runs_whenever_it_is_asked_for(calls: list[str]) -> None:
    periodic.run_due_work()
    periodic.run_all_work()

    assert calls == 2 * ["often", "seldom"]


def test_sessions_that_ended_are_deleted() -> None:
    now = timezone.now()
    for key, hours in (("ended", -1), ("open", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now + timedelta(hours=hours))

    periodic.run_all_work()

    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
