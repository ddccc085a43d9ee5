"""The broker goes away, forgets and comes back: work is only later (reliability B1, B7, B12; F7)."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from reflection.jobs.messages import sender
from reflection.reflectors.models import Reflection
from tests.chaos.jobs import Jobs, Status, assert_each_has_one_effect, jobs, slowly
from tests.chaos.profile import pick, report
from tests.factories import STEPS, bearer, make_api_key
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

RUNS = pick(10, 100, full=40)
AWAY_SECONDS = pick(8, 60, full=20)  # longer than a socket of a worker waits for an answer


def record_runs(client: Client, count: int) -> list[int]:
    """Record runs through the API; return the statuses of the answers."""
    key = make_api_key()
    return [
        client.post(
            "/api/v1/trajectories",
            json.dumps({"task": f"Case {number}", "steps": STEPS, "outcome": "failure"}),
            content_type="application/json",
            headers=bearer(key.token),
        ).status_code
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("lose", [Jobs.stop_broker, Jobs.freeze_broker], ids=["stopped", "frozen"])
def test_runs_are_recorded_without_a_broker_and_reflected_on_when_it_is_back(
    lose: Callable[[Jobs], None], client: Client
) -> None:
    with jobs(behaviour=slowly(0)) as made:
        made.stack.start_worker()
        lose(made)
        failures = sender.failures

        statuses = record_runs(client, RUNS)
        waiting = Reflection.objects.filter(status=Status.QUEUED).count()
        made.start_broker()
        made.wait_for_all()

        report(
            "F7",
            runs=RUNS,
            not_201=sum(status != 201 for status in statuses),
            reflected=Reflection.objects.filter(status=Status.DONE).count(),
        )
        assert statuses == [201] * RUNS
        assert waiting == RUNS
        assert sender.failures == failures + 1  # the other nine did not wait for it
        assert_each_has_one_effect(RUNS)


@pytest.mark.parametrize("lose", [Jobs.stop_broker, Jobs.freeze_broker], ids=["stopped", "frozen"])
def test_broker_that_is_away_for_a_while_costs_time_and_no_work(lose: Callable[[Jobs], None]) -> None:
    with jobs(behaviour=slowly(0)) as made:
        made.stack.start_worker()
        lose(made)
        made.enqueue(RUNS)
        time.sleep(AWAY_SECONDS)

        made.start_broker()
        back_at = time.monotonic()
        made.wait_for_all()

        report("F7", away_seconds=AWAY_SECONDS, drained_seconds=round(time.monotonic() - back_at, 1))
        assert_each_has_one_effect(RUNS)


def test_queue_is_drained_with_neither_broker_nor_worker(settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"
    with jobs() as made:
        made.stop_broker()
        made.enqueue(RUNS)

        call_command("run_jobs")

        assert Reflection.objects.filter(status=Status.DONE).count() == RUNS


def test_forgotten_messages_are_sent_again_and_new_ones_taken() -> None:
    with jobs(behaviour=slowly(0)) as made:
        made.enqueue(RUNS)
        made.flush_broker()
        made.stack.start_worker()
        made.wait_for_all()
        made.flush_broker()  # removes what the queue is bound to as well

        made.enqueue(1)
        made.wait_for_all()

        assert_each_has_one_effect(RUNS + 1)
        assert Reflection.objects.latest("created_at").lease_owner.startswith("worker@")


def test_running_reflection_survives_its_broker() -> None:
    with jobs(behaviour=slowly(2)) as made:
        made.stack.start_worker()
        made.enqueue(1)
        wait_until(lambda: len(made.provider.requests) == 1)

        made.stop_broker()
        made.start_broker()
        made.wait_for_all()

        assert_each_has_one_effect(1)
        assert Reflection.objects.get().attempts == len(made.provider.requests) == 1


def test_message_delivered_five_times_has_one_effect() -> None:
    with jobs(behaviour=slowly(0.1)) as made:
        reflections = made.enqueue(4)
        for _ in range(4):
            for reflection in reflections:
                sender.send_job(reflection.pk, "reflection")

        made.stack.start_worker()
        made.wait_for_all()
        wait_until(lambda: _messages(made) == 0)

        assert_each_has_one_effect(4)
        assert len(made.provider.requests) == 4


def _messages(made: Jobs) -> int:
    with made.broker_client() as client:
        return int(client.llen("erl")) + int(client.hlen("unacked"))
