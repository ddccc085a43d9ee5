"""Limits and baselines."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.errors import EvaluationError
from evaluation.reports.comparison import check_limit, compare, hold_against_baseline
from evaluation.reports.figures import compare_arm

TASKS = [f"t{number}" for number in range(50)]
SOLVED = [float(number % 2) for number in range(50)]


def report(values: list[float], *, tasks: list[str] = TASKS) -> dict[str, Any]:
    row = compare_arm("hybrid:5", about="", treated=values, control=[0.0] * len(values), seed=0)
    suite = {"name": "toolchoice", "tasks": tasks, "main": "hybrid:5", "arms": [row], "per_task": {"hybrid:5": values}}
    return {"suites": [suite]}


def test_same_figures_hold_against_the_baseline() -> None:
    [verdict] = hold_against_baseline(report(SOLVED), report(SOLVED))

    assert verdict.passed


def test_fall_of_the_whole_interval_does_not_hold() -> None:
    [verdict] = hold_against_baseline(report([0.0] * 50), report(SOLVED))

    assert not verdict.passed


def test_fall_within_chance_holds() -> None:
    [verdict] = hold_against_baseline(report([0.0, 0.0, *SOLVED[2:]]), report(SOLVED))

    assert verdict.passed


def test_baseline_of_other_tasks_is_refused() -> None:
    with pytest.raises(EvaluationError, match="nothing can be compared"):
        hold_against_baseline(report(SOLVED), report(SOLVED, tasks=TASKS[::-1]))


def test_two_runs_are_compared_task_by_task() -> None:
    [row] = compare(report([1.0] * 50), report(SOLVED))

    assert row["difference"]["mean"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("limit", "passed"), [("uplift:0.5", True), ("uplift_low:0.45", False), ("success:0.6", False)]
)
def test_limit_is_held_against_the_main_arm(limit: str, passed: bool) -> None:
    [verdict] = check_limit(report(SOLVED), limit)

    assert verdict.passed is passed


@pytest.mark.parametrize("limit", ["uplift", "speed:1", "toolchoice/none/uplift:0"])
def test_limit_that_nothing_has_is_refused(limit: str) -> None:
    with pytest.raises(EvaluationError, match="--fail-under"):
        check_limit(report(SOLVED), limit)


def test_wishes_that_cannot_be_met_are_refused_before_the_run() -> None:
    with pytest.raises(CommandError, match="write metric:value"):
        call_command("evaluate", "--suite", "replay", "--fail-under", "uplift=0.1")
    with pytest.raises(CommandError, match="there is no folder"):
        call_command("evaluate", "--suite", "replay", "--html", "/no/such/folder/report.html")
