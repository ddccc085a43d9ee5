"""The benches of evolution work, on a few calls and kills."""

import pytest

from tests.bench.evolution import kill_sleep, rehearse_often


@pytest.mark.django_db
def test_nothing_knocks_at_the_service_in_shadow() -> None:
    result = rehearse_often(calls=50)

    assert (result["calls"] >= 50, result["writes_refused"] > 0, result["connections"]) == (True, True, 0)


@pytest.mark.django_db(transaction=True)
def test_killed_sleep_leaves_one_change_and_no_edit() -> None:
    result = kill_sleep(kills=2)

    assert (result["changes"], result["doubled"], result["direct_edits"]) == (2, 0, 0)
