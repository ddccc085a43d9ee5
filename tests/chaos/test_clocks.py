"""Web servers and workers whose clocks are wrong, jump an hour or leave summer time: the database's counts (F13)."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from memory.api.idempotency import delete_expired_idempotency_records
from memory.api.models import IdempotencyRecord
from memory.runs.models import Trajectory
from tests.chaos.profile import History, pick, report
from tests.chaos.web import RIGHT, ChaosWeb, post
from tests.factories import make_api_key
from tests.stack import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

HOUR = 3600.0
EACH = pick(3, 30, full=10)


@dataclass(kw_only=True)
class WrongWeb(ChaosWeb):
    """A web server whose clock is wrong."""

    shift: float

    def _start(self, name: str, module: str, *arguments: str) -> None:
        super()._start(name, "tests.chaos.shifted_clock", str(self.shift), module, *arguments)


def test_the_clock_of_a_process_is_shifted_in_its_forks_too() -> None:
    program = [sys.executable, "-m", "tests.chaos.shifted_clock", str(HOUR), "tests.chaos.tell_time"]
    said = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    assert all(3590 < float(each) - timezone.now().timestamp() < 3610 for each in said)
    assert len(said) == 2


@pytest.fixture(scope="module")
def wrong_webs(
    broker: str, served_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, WrongWeb]]:
    """Two web servers on the tests' database, an hour before and after it."""
    environment = served_environment | {"TEST_IDEMPOTENCY_HOURS": "1"}
    webs = {
        name: WrongWeb(home=tmp_path_factory.mktemp(name), environment=environment, shift=shift)
        for name, shift in (("ahead", 1.5 * HOUR), ("behind", -1.5 * HOUR))
    }
    try:
        for web in webs.values():
            web.start_web()
        yield webs
    finally:
        for web in webs.values():
            web.kill_all()


def test_keys_expire_by_the_clock_of_the_database(wrong_webs: dict[str, WrongWeb]) -> None:
    token, history = make_api_key().token, History(name="F13")
    ahead, behind = wrong_webs["ahead"], wrong_webs["behind"]
    wrong: list[str] = []
    for number in range(EACH):
        key = f"clock-{number}"
        history.attempt(key)
        first, other = (ahead, behind) if number % 2 else (behind, ahead)
        made = post(first.port, RIGHT, token=token, key=key)
        deleted = delete_expired_idempotency_records()
        again = post(other.port, RIGHT, token=token, key=key)
        history.acknowledge(key)
        if (made.status, again.body, deleted) != (201, made.body, 0):
            wrong.append(f"{key}: {made.status}, then {again.status}, {deleted} deleted")
    left = IdempotencyRecord.objects.annotate(left=F("expires_at") - Now()).values_list("left", flat=True)
    wrong += [f"a key is kept for {each}" for each in left if not timedelta(minutes=55) < each <= timedelta(hours=1)]

    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))
    late = [post(web.port, RIGHT, token=token, key="clock-0").status for web in wrong_webs.values()]

    verdict = history.judge(Trajectory.objects.exclude(pk__in=_newest(1)).values_list("task", flat=True))
    report("F13", **verdict.counts(), violations=len(wrong))
    assert wrong == []
    assert verdict.is_sound
    assert late == [201, 201]
    assert Trajectory.objects.filter(task="clock-0").count() == 2, "once before its key expired, and once after"


def _newest(count: int) -> list[Any]:
    """Return what the expired key made again: the run whose record is there."""
    records = IdempotencyRecord.objects.filter(expires_at__gt=Now()).values_list("resource_id", flat=True)
    return list(records[:count])


@pytest.mark.parametrize("minutes_left", [-30, 30])
def test_api_keys_end_by_the_clock_of_the_database(wrong_webs: dict[str, WrongWeb], minutes_left: int) -> None:
    token = make_api_key(expires_at=timezone.now() + timedelta(minutes=minutes_left)).token

    statuses = {post(web.port, RIGHT, token=token, key="once").status for web in wrong_webs.values()}

    assert statuses == ({201} if minutes_left > 0 else {401})
