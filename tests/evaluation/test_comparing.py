"""Limits and baselines."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.errors import EvaluationError
from evaluation.reports.comparison import check_baseline, check_limit, compare
from evaluation.reports.figures import compare_arm

TASKS = [f"t{number}" for number in range(50)]
SOLVED = [float(number % 2) for number in range(50)]


def report(values: list[float], *, tasks: list[str] = TASKS) -> dict[str, Any]:
    row = compare_arm("hybrid:5", about="", treated=values, control=[0.0] * len(values), seed=0)
    suite = {"name": "toolchoice", "tasks": tasks, "main": "hybrid:5", "arms": [row], "per_task": {"hybrid:5": values}}
    return {"suites": [suite]}


def test_same_figures_pass_the_baseline() -> None:
    [verdict] = check_baseline(report(SOLVED), report(SOLVED))

    assert verdict.passed


def test_drop_of_the_whole_interval_fails() -> None:
    [verdict] = check_baseline(report([0.0] * 50), report(SOLVED))

    assert not verdict.passed


def test_drop_within_chance_passes() -> None:
    [verdict] = check_baseline(report([0.0, 0.0, *SOLVED[2:]]), report(SOLVED))

    assert verdict.passed


def test_baseline_with_other_tasks_is_refused() -> None:
    with pytest.raises(EvaluationError, match="nothing can be compared"):
        check_baseline(report(SOLVED), report(SOLVED, tasks=TASKS[::-1]))


def test_two_runs_are_compared_task_by_task() -> None:
    [row] = compare(report([1.0] * 50), report(SOLVED))

    assert row["difference"]["mean"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("limit", "passed"), [("uplift:0.5", True), ("uplift_low:0.45", False), ("success:0.6", False)]
)
def test_limit_applies_to_the_main_arm(limit: str, passed: bool) -> None:
    [verdict] = check_limit(report(SOLVED), limit)

    assert verdict.passed is passed


@pytest.mark.parametrize("limit", ["uplift", "speed:1", "toolchoice/none/uplift:0"])
def test_limit_that_matches_no_arm_is_refused(limit: str) -> None:
    with pytest.raises(EvaluationError, match="--fail-under"):
        check_limit(report(SOLVED), limit)


def test_impossible_options_are_refused_before_the_run() -> None:
    with pytest.raises(CommandError, match="write metric:value"):
        call_command("evaluate", "--suite", "replay", "--fail-under", "uplift=0.1")
    with pytest.raises(CommandError, match="there is no folder"):
        call_command("evaluate", "--suite", "replay", "--html", "/no/such/folder/report.html")
