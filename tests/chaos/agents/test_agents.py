"""A few of each kind of blow; `python -m tests.chaos.agents` deals the many."""

import pytest

from tests.chaos.agents.random_rules import play_random_rules
from tests.chaos.agents.sleep_kills import kill_sleeps_at_random
from tests.chaos.agents.worker_kills import kill_workers_at_random

pytestmark = pytest.mark.nightly


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_killed_workers_lose_and_double_nothing() -> None:
    found = kill_workers_at_random(kills=4)

    assert found["passed"], str(found)


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_killed_sleep_leaves_one_change_and_no_edit() -> None:
    found = kill_sleeps_at_random(kills=2)

    assert found["passed"], str(found)


@pytest.mark.django_db
def test_no_call_starts_that_the_rules_do_not_let_in() -> None:
    found = play_random_rules(sets=25)

    assert found["passed"], str(found)
    assert found["refused"]
    assert found["started"]
