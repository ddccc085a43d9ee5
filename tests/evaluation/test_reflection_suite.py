"""Recorded answers of a strong model, replayed through reflection."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from evaluation.errors import EvaluationError
from evaluation.reports.report import present, write_text
from evaluation.suites.base import Options
from evaluation.suites.reflection.recording import (
    LATER,
    RECORDED,
    read_answers,
    read_briefing,
    read_runs,
    read_verdicts,
)
from evaluation.suites.reflection.suite import ReflectionSuite
from memory.heuristics.models import Evidence
from reflection.llm.registry import close_provider
from tests.scripted_answers import answer, lesson
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.django_db(transaction=True)
SUITE = ReflectionSuite()


def run(*arms: str, limit: int) -> dict[str, Any]:
    """Run the first runs of these arms and return the report."""
    options = Options(suites=("reflection",), arms=arms, limit=limit)
    units = {unit: SUITE.run_unit(unit, options, lambda what, done, total: None) for unit in SUITE.units(options)}
    return SUITE.summarise(units, options)


def read_figures(report: dict[str, Any], arm: str) -> dict[str, float]:
    """Return the stations of an arm by their names."""
    stations = [figure for figure in report["figures"] if figure["arm"].startswith("What became")]
    return {figure["arm"].partition("/")[2]: figure["mean"] for figure in stations if figure["name"] == arm}


@pytest.fixture
def server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        settings = {"PROVIDER": "openai", "MODEL": "m", "API_KEY": "test-key", "BASE_URL": server.openai_url}
        with override_settings(**{f"ERL_LLM_{name}": value for name, value in settings.items()}):
            yield server
            close_provider()


@pytest.mark.parametrize("arm", [RECORDED, LATER])
def test_every_verdict_and_answer_is_about_a_recorded_run(arm: str) -> None:
    verdicts = read_verdicts(arm)
    judged = {flag["run"] for flag in verdicts["flags"]} | {run for pair in verdicts["duplicates"] for run in pair}
    judged |= verdicts.get("rules", {}).keys()

    assert judged <= read_answers(arm).keys() <= read_runs().keys()


def test_recorded_answers_go_through_reflection() -> None:
    report = run("recorded", limit=7)

    counts = read_figures(report, "recorded")
    assert (counts["runs"], counts["answers that could be read"], counts["lessons"]) == (7, 7, 7)
    assert counts["flagged rightly"] == counts["dropped"] == 0
    # The first and the seventh run led to the same lesson in other words.
    assert counts["duplicates in one row"] + counts["duplicates side by side"] == 1
    assert counts["duplicates left"] == 0
    (tokens,) = [table for table in present({"suites": [report]})[0]["figure_tables"] if table["main"] == "in all"]
    assert [row["arm"] for row in tokens["rows"]] == ["0.2.0", "recorded"]
    assert "RUNS THAT ENDED OTHERWISE" in tokens["columns"]
    assert re.search(r"^runs +26 +7$", write_text({"suites": [report]}), re.MULTILINE)


def test_answer_that_names_the_lesson_it_repeats_is_one_row_with_it() -> None:
    """The label of that lesson was another one in the prompt that was answered."""
    report = run("recorded-1.1", limit=7)

    counts = read_figures(report, "recorded-1.1")
    assert (counts["lessons"], counts["duplicates in one row"], counts["duplicates left"]) == (7, 1, 0)
    assert counts["flagged, not judged"] == 0


def test_configured_model_is_asked_about_the_same_runs(server: ScriptedProvider) -> None:
    server.script(answer(lesson(evidence_steps=[1])))

    report = run("live", limit=1)

    assert read_figures(report, "live")["runs"] == len(server.requests) == 1
    assert "olivia_gonzalez_2305" in server.requests[0].user_text


def test_agents_of_the_airline_were_told_their_policy_unless_the_arm_is_untold() -> None:
    report = run("recorded", "untold", limit=1)

    told = {
        figure["arm"].partition("/")[2]: figure["mean"]
        for figure in report["figures"]
        if figure["name"] == "WHAT THE AGENT WAS TOLD"
    }
    assert told["recorded"] > 0 == told["untold"]


def test_rules_that_decide_are_counted_where_they_are_shown() -> None:
    """The second run fails by two rules; without the policy there is none to show."""
    report = run("recorded", "untold", limit=2)

    counts = {arm: read_figures(report, arm) for arm in ("recorded", "untold")}
    assert counts["recorded"]["rules that decide"] == counts["untold"]["rules that decide"] == 3
    assert counts["recorded"]["of these, shown"] == 2
    assert counts["untold"]["of these, shown"] == 0


def test_every_rule_that_decides_is_in_the_policy() -> None:
    rules = [rule for rules in read_verdicts()["rules"].values() for rule in rules]

    assert [rule for rule in rules if rule not in read_briefing()["system_prompt"]] == []


def test_answer_cites_its_steps_after_what_the_customer_said_first() -> None:
    run("recorded-1.1", limit=1)

    cited = Evidence.objects.values_list("trajectory__steps__0__observation", "first_step", "last_step")
    assert [(opening[:9], first, last) for opening, first, last in cited] == [("Hi there!", 2, 5)]


def test_live_needs_a_model() -> None:
    with override_settings(ERL_LLM_PROVIDER=""), pytest.raises(EvaluationError, match="none is configured"):
        SUITE.units(Options(arms=("live",)))


def test_unknown_arm_is_refused() -> None:
    with pytest.raises(EvaluationError, match="no arm hybrid:5"):
        SUITE.units(Options(arms=("hybrid:5",)))
