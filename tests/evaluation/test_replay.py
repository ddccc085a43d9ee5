"""Published figures are reproduced, including where reflection did harm."""

from typing import Any

import pytest

from evaluation.suites.base import Options
from evaluation.suites.replay import REFLECTOR, SOURCES, Replay

LEARNED = {"runs": 20, "proposed": 9, "repeated": 3, "with_trigger": 12, "quotes": 10, "quotes_found": 8}
LEARNED |= {"without_lesson": 8}


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    suite, options = Replay(), Options()
    units = {unit: suite.run_unit(unit, options, lambda what, done, total: None) for unit in SOURCES}
    units[REFLECTOR] = {"learned": LEARNED, "timing": {}}
    return suite.summarise(units, options)


def arm(summary: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in summary["arms"] if row["arm"] == name)


def figure(summary: dict[str, Any], name: str, of: str) -> float:
    return next(float(row["mean"]) for row in summary["figures"] if row["name"] == name and row["arm"] == of)


def test_alfworld_rises_with_reflection(summary: dict[str, Any]) -> None:
    assert figure(summary, "success at the first trial", "alfworld/none") == pytest.approx(84 / 134, abs=1e-4)
    assert arm(summary, "alfworld/none")["success"]["mean"] == pytest.approx(101 / 134, abs=1e-4)
    assert arm(summary, "alfworld/reflection")["success"]["mean"] == 1


def test_alfworld_uplift_has_the_published_interval(summary: dict[str, Any]) -> None:
    uplift = arm(summary, "alfworld/reflection")["uplift"]

    assert uplift["mean"] == pytest.approx(0.246, abs=5e-4)
    assert uplift["low"] == pytest.approx(0.179, abs=5e-4)
    assert uplift["high"] == pytest.approx(0.328, abs=1 / 134)  # one task: the edge falls between two counts
    assert figure(summary, "uplift at trial 7", "alfworld/reflection") == pytest.approx(0.164, abs=5e-4)


def test_mbpp_falls_with_reflection(summary: dict[str, Any]) -> None:
    uplift = arm(summary, "mbpp-py/reflection")["uplift"]

    assert (uplift["mean"], uplift["low"], uplift["high"]) == pytest.approx((-0.030, -0.063, 0.003), abs=5e-4)
    assert any("mbpp-py" in note and "worse" in note for note in summary["notes"])


def test_airline_reliability_matches_tau_bench(summary: dict[str, Any]) -> None:
    figures = [figure(summary, f"pass^{k}", "tau-airline/recorded") for k in (1, 2, 3, 4)]

    assert figures == pytest.approx([0.420, 0.273, 0.220, 0.200], abs=5e-4)


def test_webshop_matches_its_published_score_and_success(summary: dict[str, Any]) -> None:
    assert figure(summary, "score", "webshop/recorded") == pytest.approx(0.627, abs=5e-4)
    assert arm(summary, "webshop/recorded")["success"]["mean"] == pytest.approx(0.364)


def test_runs_without_a_pair_have_no_uplift(summary: dict[str, Any]) -> None:
    assert arm(summary, "webshop/recorded")["uplift"] == {"n": 0}


def test_reflector_figures_are_shares_of_its_lessons(summary: dict[str, Any]) -> None:
    shares = {row["name"]: row["mean"] for row in summary["figures"] if row["arm"] == "rules"}

    assert shares["lessons per run"] == pytest.approx(0.6)
    assert shares["share of repeated lessons"] == pytest.approx(0.25)
    assert shares["quotes found in the run"] == pytest.approx(0.8)
