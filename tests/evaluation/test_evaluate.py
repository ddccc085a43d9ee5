"""A small evaluation by the command, from start to report."""

import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from evaluation.models import EvaluationRun
from tests.evaluation.conftest import ARMS, SMALL, Evaluated, evaluate

# The mark keeps these tests together; otherwise the fixture would be created twice.
pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def uplift(evaluated: Evaluated, arm: str) -> dict[str, float]:
    [suite] = evaluated.report["suites"]
    found: dict[str, float] = next(row["uplift"] for row in suite["arms"] if row["arm"] == arm)
    return found


def results_of(report: dict[str, Any], arms: Sequence[str]) -> dict[str, Any]:
    """Return what these arms learned and solved, which has no time in it."""
    [suite] = report["suites"]
    rows = [row for row in suite["arms"] if row["arm"] in arms]
    return {"rows": rows, "tasks": {arm: suite["per_task"][arm] for arm in arms}, "learned": suite["learned"]["seed-0"]}


def test_retrieved_lessons_help(evaluated: Evaluated) -> None:
    assert uplift(evaluated, "hybrid:5")["low"] > 0


def test_shuffled_lessons_give_little_uplift(evaluated: Evaluated) -> None:
    assert uplift(evaluated, "shuffled")["mean"] < uplift(evaluated, "hybrid:5")["mean"] / 3


def test_flipped_outcomes_give_little_uplift(evaluated: Evaluated) -> None:
    assert uplift(evaluated, "flipped")["mean"] < uplift(evaluated, "hybrid:5")["mean"] / 3


def test_unapproved_wrong_lessons_change_nothing(evaluated: Evaluated) -> None:
    [suite] = evaluated.report["suites"]

    assert suite["per_task"]["poison-unapproved"] == suite["per_task"]["hybrid:5"]
    assert {check["name"]: check["passed"] for check in suite["checks"]}["unapproved lessons change nothing"]


def test_approved_wrong_lessons_do_harm(evaluated: Evaluated) -> None:
    assert uplift(evaluated, "poison-approved")["high"] < 0


def test_every_run_was_recorded_reflected_on_and_approved(evaluated: Evaluated) -> None:
    learned = evaluated.report["suites"][0]["learned"]["seed-0"]

    assert learned["runs"] == 32
    assert learned["proposed"] + learned["supported"] == 32
    assert learned["approved"] == learned["proposed"]


def test_live_tables_are_unchanged(evaluated: Evaluated) -> None:
    assert evaluated.after == evaluated.before


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)  # no transaction may idle while the other process works
def test_second_run_finds_the_same(evaluated: Evaluated) -> None:
    again = json.loads(evaluate("--suite", "toolchoice", "--arms", *ARMS[:2], *SMALL, "--json", "-"))

    assert results_of(again, ARMS[:2]) == results_of(evaluated.report, ARMS[:2])


def test_run_is_stored_with_its_versions(evaluated: Evaluated) -> None:
    run = evaluated.stored

    assert run.status == EvaluationRun.Status.FINISHED
    assert run.results == evaluated.report
    assert {"git_revision", "embedder", "index", "prompts", "data"} <= run.versions.keys()
    assert (run.configuration["limit"], run.configuration["seed"]) == (48, 0)


def test_terminal_output_says_what_the_figures_show(evaluated: Evaluated) -> None:
    text = " ".join(evaluated.text.split())

    assert "Memory helps here: hybrid:5 solves" in text
    assert "It does not show how much a language model gains" in text
    assert "With 48 tasks, differences below about ±12.7 points do not show" in text


def test_page_is_self_contained(evaluated: Evaluated) -> None:
    assert evaluated.html.count("<svg") == 3
    assert not re.search(r"<script|<link|<img|@import|url\(|\ssrc=", evaluated.html)
    assert "prefers-color-scheme: dark" in evaluated.html


def test_junit_has_a_case_for_each_check(evaluated: Evaluated) -> None:
    cases = ElementTree.fromstring(evaluated.junit.encode()).iter("testcase")  # noqa: S314 - our own

    assert {"harm is detected", "random:5 does worse", "shuffled does worse"} <= {case.get("name") for case in cases}


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_falling_below_a_limit_ends_with_exit_code_2() -> None:
    with pytest.raises(SystemExit) as ended:
        evaluate("--suite", "replay", "--quiet", "--fail-under", "replay/mbpp-py/reflection/uplift:0")

    assert ended.value.code == 2
    assert EvaluationRun.objects.get(suites=["replay"]).status == EvaluationRun.Status.FINISHED
