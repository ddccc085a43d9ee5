"""Workers whose clocks are an hour off, or leave summer time: the database's counts (F13).

For the runner alone: it takes minutes on a busy machine. `python -m tests.chaos.run --only F13`.
"""

import signal
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from reflection.llm.models import DailySpend
from reflection.reflectors.models import Reflection
from tests.chaos.jobs import (
    WorkerStack,
    assert_each_has_one_effect,
    find_running,
    jobs,
    kill,
    slowly,
    working_process,
)
from tests.chaos.profile import pick, report
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

HOUR = 3600.0
EACH = pick(3, 30, full=10)
LEASE_SECONDS = 2.0


def seconds_to_the_end_of_summer_time() -> float:
    """Return by how much a clock in New York is wrong that is about to be set back an hour."""
    return (datetime(2026, 11, 1, 5, 59, 55, tzinfo=UTC) - timezone.now()).total_seconds()


@dataclass(kw_only=True)
class WrongWorkers(WorkerStack):
    """Workers each of whom has a clock of its own, named when it is started."""

    shift: float = 0.0

    def _start(self, name: str, module: str, *arguments: str) -> None:
        super()._start(name, "tests.chaos.shifted_clock", str(self.shift), module, *arguments)


def test_workers_an_hour_apart_do_each_reflection_once() -> None:
    environment = {"TEST_REFLECTION_LEASE_SECONDS": str(LEASE_SECONDS), "TZ": "America/New_York"}
    shifts = {"ahead": HOUR, "behind": -HOUR, "dst": seconds_to_the_end_of_summer_time()}
    with jobs(environment=environment, behaviour=slowly(1.5 * LEASE_SECONDS)) as made:
        stack = WrongWorkers(home=made.stack.home, environment=made.stack.environment)
        try:
            for name, stack.shift in shifts.items():
                stack.start_worker(name, concurrency=1)
            made.enqueue(2 * EACH)
            lost = wait_until(find_running)
            assert lost is not None
            kill(working_process(lost), signal.SIGKILL)
            made.wait_for_all(seconds=30 + 4 * EACH * LEASE_SECONDS)
        finally:
            stack.kill_all()

        claims = sum(Reflection.objects.values_list("attempts", flat=True))
        owners = {owner.partition("@")[0] for owner in Reflection.objects.values_list("lease_owner", flat=True)}
        held_seconds = max(
            (each.finished_at - each.started_at).total_seconds()  # type: ignore[operator]
            for each in Reflection.objects.all()
        )
        report("F13", reflections=2 * EACH, claims=claims, kills=1, longest_seconds=round(held_seconds, 1))
        assert_each_has_one_effect(2 * EACH)
        assert claims <= 2 * EACH + 1, "a lease that was not over was taken for over"
        assert owners <= {*shifts, "manage"}
        today = Reflection.objects.annotate(day=Now()).values_list("day", flat=True)[0].date()
        assert set(DailySpend.objects.values_list("day", flat=True)) == {today}
