"""The headline of a report, and tables that compare arms."""

from typing import Any

import pytest

from evaluation.reports.controls import check_controls
from evaluation.reports.figures import compare_arm, estimate_json
from evaluation.reports.report import write_text
from evaluation.reports.statistics import Estimate
from evaluation.reports.tables import collect_latencies, group_figures, write_headline

NONE = [0.0, 1.0] * 50


def make_suite(treated: list[float]) -> dict[str, Any]:
    arms = [
        compare_arm(name, about="", treated=values, control=NONE, seed=0)
        for name, values in (("none", NONE), ("hybrid:5", treated))
    ]
    return {"arms": arms, "main": "hybrid:5", "n": len(NONE)}


def figure(arm: str, name: str, mean: float = 0.5, **more: Any) -> dict[str, Any]:
    estimate = Estimate(mean=mean, low=mean - 0.1, high=mean + 0.1, n=40)
    return {"arm": arm, "name": name, **more, **estimate_json(estimate)}


@pytest.mark.parametrize(
    ("treated", "says"),
    [
        ([1.0] * 100, "Memory helps here: hybrid:5 solves 100.0% of 100 new tasks, no lessons 50.0%"),
        ([0.0] * 100, "Memory does harm here"),
        ([1.0, 0.0, *NONE[2:]], "These tasks do not show whether memory helps here"),
        (NONE, "Memory changed nothing here"),
    ],
)
def test_headline_claims_only_what_the_interval_allows(treated: list[float], says: str) -> None:
    assert write_headline(make_suite(treated)).startswith(says)


def test_control_that_does_as_well_is_the_headline() -> None:
    tied = compare_arm("random:5", about="", treated=[1.0] * 100, control=NONE, seed=0)
    checks = check_controls({"none": NONE, "hybrid:5": [1.0] * 100, "random:5": [1.0] * 100}, "hybrid:5", seed=0)
    suite = make_suite([1.0] * 100)

    headline = write_headline(suite | {"arms": [*suite["arms"], tied], "checks": checks})

    assert headline.startswith(
        "The controls fail, so this does not show that memory helps (with lessons not chosen for the task: random:5 "
        "100.0%): hybrid:5 solves 100.0%"
    )


@pytest.mark.parametrize(("control", "passed"), [(NONE, True), ([1.0] * 100, False), ([1.0] * 99 + [0.0], False)])
def test_control_must_lose_beyond_chance(control: list[float], passed: bool) -> None:
    [check] = check_controls({"none": NONE, "hybrid:5": [1.0] * 100, "shuffled": control}, "hybrid:5", seed=0)

    assert check["passed"] is passed


def test_without_an_uplift_no_control_can_lose_it() -> None:
    assert check_controls({"none": NONE, "hybrid:5": NONE, "random:5": NONE}, "hybrid:5", seed=0) == []


def test_headline_says_that_no_lesson_was_learnt() -> None:
    learned = {"seed-0": {"runs": 12, "approved": 0, "failed": 3}}

    headline = write_headline(make_suite(NONE) | {"learned": learned})

    assert headline == (
        "Nothing was tested: no lesson was learnt from 12 earlier runs. 3 of the reflections on them failed. Every arm "
        "ran without one."
    )


def test_headline_says_that_no_lesson_was_given() -> None:
    suite = make_suite(NONE) | {"learned": {"seed-0": {"runs": 12, "approved": 4}}}
    suite["arms"][1]["lessons_mean"] = 0.0

    assert write_headline(suite) == "Nothing was tested: hybrid:5 gave no lesson for any of the 100 new tasks."


def test_figures_that_all_arms_have_form_a_table() -> None:
    ahead = figure("set/lexical:20", "nDCG@10: hybrid:20 ahead by", 0.03, paired=True)
    figures = [figure(f"set/{arm}", name) for arm in ("hybrid:20", "lexical:20") for name in ("MRR", "hit@5")]

    [table] = group_figures([*figures, ahead])

    assert (table["name"], table["columns"]) == ("set", ["MRR", "hit@5"])
    assert [row["arm"] for row in table["rows"]] == ["hybrid:20", "lexical:20"]
    assert table["listed"] == [ahead]
    assert table["width"] == 0.1


def test_figures_of_one_arm_are_listed() -> None:
    [table] = group_figures([figure("tau/recorded", "pass^1"), figure("tau/recorded", "pass^2")])

    assert (table["columns"], len(table["listed"])) == ([], 2)


def test_latencies_are_averaged_over_seeds() -> None:
    timing = {f"seed-{n}": {"embed_ms": {"p50": 10.0 * n, "p95": 30.0, "n": 50}} for n in (1, 3)}

    assert collect_latencies(timing) == [{"name": "embed one text", "p50": 20.0, "p95": 30.0, "n": 100}]


def test_terminal_output_signs_differences_but_not_shares() -> None:
    texts = dict.fromkeys(("title", "proves", "power", "data", "licence", "splits", "seeds"), "said")
    figures = [figure("s/x", "score"), figure("s/x", "ahead by", 0.03, paired=True)]
    suite = texts | {"name": "s", "n": 40, "arms": [], "curve": [], "checks": [], "notes": [], "figures": figures}

    text = write_text({"suites": [suite]})

    assert "score     0.500 [0.400, 0.600]  n=40" in text
    assert "ahead by  +0.030 [-0.070, +0.130]  n=40" in text
