"""What workers do once a minute."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from reflection.jobs.periodic import run_all_work


@pytest.mark.django_db
def test_sessions_that_ended_are_deleted() -> None:
    now = timezone.now()
    for key, hours in (("ended", -1), ("open", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now + timedelta(hours=hours))

    run_all_work()

    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
