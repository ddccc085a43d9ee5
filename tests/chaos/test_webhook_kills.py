"""A worker that is killed around a delivery: the message arrives at least once, always under the same id."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from reflection.jobs.models import Job
from reflection.webhooks.delivery import run_delivery
from reflection.webhooks.models import WebhookDelivery
from tests.chaos.crash import Crash, crash_at
from tests.reflection.webhooks import TAKEN, deliver, make_hook, only_delivery, propose
from tests.scripted_provider import ScriptedProvider
from tests.stack import database_url

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
RUN = (
    "import django; django.setup(); "
    "from reflection.webhooks.delivery import run_delivery; run_delivery(owner='killed/1')"
)


def deliver_in_a_process(failpoints: str) -> int:
    """Deliver in a process of its own, which a failpoint kills; return how it ended."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DATABASE_URL": database_url(connection.settings_dict),
        "ERL_SECRET_KEY": settings.SECRET_KEY,
        "ERL_HTTP_HOSTS": "127.0.0.1",
        "TEST_FAILPOINTS": failpoints,
    }
    process = subprocess.run(
        [sys.executable, "-c", RUN], cwd=settings.BASE_DIR, env=environment, capture_output=True, timeout=120
    )
    return process.returncode


@pytest.mark.parametrize(("point", "arrived"), [("webhook.before_send", 0), ("webhook.sent", 1)])
def test_killed_worker_loses_no_message(settings: Any, point: str, arrived: int) -> None:
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    with ScriptedProvider(otherwise=TAKEN) as receiver:
        hook = make_hook(receiver)
        propose(hook.project)

        assert deliver_in_a_process(f"{point}=crash") == -signal.SIGKILL
        assert (len(receiver.requests), only_delivery().status) == (arrived, Job.Status.RUNNING)

        Job.objects.update(lease_until=only_delivery().created_at)  # as if the lease had run out
        run_delivery(owner="test/1")

    assert only_delivery().status == Job.Status.DONE
    assert len(hook.ids()) == arrived + 1
    assert len(set(hook.ids())) == 1


def test_proposal_that_ends_at_any_point_has_its_message_or_is_not_there(settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    with ScriptedProvider(otherwise=TAKEN) as receiver:
        hook = make_hook(receiver)
        with crash_at(None) as trace:
            propose(hook.project)
        points = [point for point in trace.points() if point.before]
        wrong = []
        for point in points:
            WebhookDelivery.objects.all().delete()
            before = hook.project.heuristics.count()
            with crash_at(point):
                try:
                    with transaction.atomic():
                        propose(hook.project)
                except Crash:
                    connection.close()
            made = hook.project.heuristics.count() - before
            if WebhookDelivery.objects.count() != made:
                wrong.append(str(point))
        deliver()

    assert len(points) > 5
    assert wrong == []
