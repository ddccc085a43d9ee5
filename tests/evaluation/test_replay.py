"""Published figures are reproduced, including where reflection did harm."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import EvaluationError
from evaluation.reports.tables import write_headline
from evaluation.runner import create_run, execute_run
from evaluation.suites.base import Options
from evaluation.suites.own_runs import read_own_runs
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


def write_runs(folder: Path, *arms: str) -> Path:
    """Write two tries of eight tasks in each arm; with lessons all of them succeed, without every second task does."""
    steps = [
        {"action": {"name": "book", "arguments": {"day": "3 March"}}, "error": "day must be written YYYY-MM-DD"},
        {"action": {"name": "book", "arguments": {"day": "2027-03-03"}}, "observation": "booked"},
    ]
    runs = [
        {"arm": arm, "task": f"Book table {task}", "steps": steps if arm == "none" else [], "outcome": outcome}
        for arm in arms
        for task in range(8)
        for outcome in ["success" if arm != "none" or task % 2 else "failure"] * 2
    ]
    path = folder / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, [*runs, {"arm": arms[0], "task": "Only once", "score": 1}])), "utf-8")
    return path


@pytest.mark.django_db(transaction=True)
def test_own_runs_are_counted_and_reflected_on(tmp_path: Path) -> None:
    data = write_runs(tmp_path, "none", "with lessons")

    run = execute_run(create_run(Options(suites=("replay",), data=str(data)), by="test"))

    [suite] = run.results["suites"]
    shares = {row["arm"]: row["success"]["mean"] for row in suite["arms"]}
    assert (suite["n"], shares) == (8, {"none": 0.5, "with lessons": 1})
    assert arm(suite, "with lessons")["uplift"]["mean"] == 0.5
    assert figure(suite, "pass^2", "none") == 0.5
    assert "Tasks that were not tried in every arm do not count: 1." in suite["notes"]
    assert any(note.startswith("rules: 16 complete runs gave 1 different lessons") for note in suite["notes"])
    assert write_headline(suite).startswith("Memory helps here: with lessons solves 100.0% of 8 new tasks")
    assert "Book table" not in json.dumps([run.results, run.units])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"task": "t", "outcome": "success"}, "line 1: /arm: Name the arm"),
        ({"arm": "none", "task": "t", "outcome": "won"}, "line 1: /outcome"),
        ({"arm": "none", "task": "t", "steps": 3}, "line 1: steps must be a list"),
    ],
)
def test_own_run_with_a_mistake_is_refused_with_its_line(tmp_path: Path, line: dict[str, Any], says: str) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(line), encoding="utf-8")

    with pytest.raises(EvaluationError, match=says):
        read_own_runs(tmp_path / "runs.jsonl")


def test_own_runs_without_an_arm_called_none_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="Call the one without lessons none"):
        read_own_runs(write_runs(tmp_path, "before", "after"))
