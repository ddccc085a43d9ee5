"""Refusals that never turned: rules that a tool quotes, labels that no page showed, names that do not exist."""

import pytest

from memory.runs.episode import Episode
from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.rules.detectors import quoted_rule, unknown_name, unshown_label
from reflection.reflectors.rules.run_view import ReadRun
from tests.reflection.rules_runs import call, make_run, view

RULE = "Error: basic economy cannot be cancelled after 24 hours"


def test_rule_is_quoted_with_the_answer_that_showed_it() -> None:
    run = view(
        call("get_booking", {"cabin": "basic_economy", "insurance": "no"}, booking_id="R1"),
        call("cancel_booking", RULE, booking_id="R1"),
    )

    (finding,) = quoted_rule.find(run)

    assert finding.trigger == "When about to call `cancel_booking`"
    assert finding.guideline == (
        'First check whether this rule of the tool applies: "basic economy cannot be cancelled after … hours". `cabin` '
        "in the answer of `get_booking` shows it. If it does, do not make the call; say which rule forbids it and what "
        "is possible instead."
    )
    assert [c.quote for c in finding.citations] == ["basic_economy", RULE]


def test_condition_names_the_tool_on_offer_that_it_speaks_of() -> None:
    refused = call("start_engine", "Error: brake pedal needs to be pressed first")
    (finding,) = quoted_rule.find(ReadRun(make_run(refused, tools=("start_engine", "press_brake_pedal"))))

    assert finding.guideline == "First call `press_brake_pedal`, then `start_engine`."


def test_condition_without_such_a_tool_is_quoted() -> None:
    (finding,) = quoted_rule.find(view(call("chop", "You need to take the knife first", input="carrot")))

    assert finding.trigger.endswith('this condition is not met yet: "You need to take the … first"')


def test_condition_that_had_been_met_in_another_way_teaches_nothing() -> None:
    pressed = call("press_brake_pedal", "pressed", position=0.5)

    assert quoted_rule.find(view(pressed, call("start_engine", "Error: brake pedal needs to be pressed first"))) == []


@pytest.mark.parametrize(
    "answer",
    [
        "Error: file cannot be found in this folder",
        "Error: travel class must be one of the listed values",
        "cp: cannot copy 'a.txt': No such file or directory",
        "Error: time-out, restart before you try it again",
        "mv: path not allowed in destination. Provide only a file or directory name.",
    ],
)
def test_trouble_of_a_tool_is_no_rule(answer: str) -> None:
    assert quoted_rule.find(view(call("copy_it", answer, name="a.txt"))) == []


def test_rule_that_did_not_hold_to_the_end_is_not_quoted() -> None:
    assert quoted_rule.find(view(call("cancel", RULE, id="R1"), call("cancel", "ok", id="R2"))) == []


def test_label_that_the_page_does_not_show_is_to_be_copied() -> None:
    run = view(
        call("search", "[Back to Search]\n[Next >]", input="lamp"),
        call("click", "[Back to Search]\n[< Prev]", input="Next >"),
        call("click", "Invalid action!", input="Next >"),
    )

    (finding,) = unshown_label.find(run)

    assert finding.guideline.startswith("Copy `input` exactly from the labels in brackets in the latest answer.")


def test_missing_command_names_what_did_the_same() -> None:
    run = view(
        call("Bash", "bash: python: command not found", command="python build.py"),
        call("Bash", "built", command="python3 build.py"),
    )

    (finding,) = unknown_name.find(run)

    assert finding.trigger == "When about to run `python` in this environment"
    assert finding.guideline == "Run `python3` instead: `python` does not exist here."


def test_missing_command_names_what_had_done_the_same_before() -> None:
    run = view(
        call("bash", "1 failed", command="python3 -m unittest -q"),
        call("bash", "bash: line 1: python: command not found\nexit code 127", command="python -m unittest -q"),
    )

    assert unknown_name.find(run)[0].guideline == "Run `python3` instead: `python` does not exist here."
    assert RulesReflector().reflect(run.episode).lessons[0].text.tags == ("unknown_name",)


def test_missing_command_without_an_equal_names_the_usual_one() -> None:
    run = view(call("bash", "bash: line 1: rg: command not found\nexit code 127", command="rg 'def row'"))

    assert unknown_name.find(run)[0].guideline == "Run `grep -rn` instead: `rg` does not exist here."


@pytest.mark.parametrize("following", ["sudo make_it site.cfg", "cat site.cfg", "make all"])
def test_missing_command_without_a_safe_equal_teaches_nothing(following: str) -> None:
    run = view(
        call("Bash", "bash: buildit: command not found", command="buildit site.cfg"),
        call("Bash", "done", command=following),
    )

    assert unknown_name.find(run) == []


def test_unknown_tool_names_the_one_that_took_the_same_value() -> None:
    run = view(
        call("pick", "I don't understand that verb.", input="up the lamp"),
        call("take", "You take the lamp.", input="up the lamp"),
    )

    assert unknown_name.find(run)[0].guideline == "Call `take` instead: `pick` does not exist here."


def test_unknown_tool_is_not_replaced_by_one_of_many_that_took_the_same_value() -> None:
    run = view(
        call("get_gases", "Unknown tool: get_gases", asset="T-020"),
        call("get_sensors", "oil", asset="T-020"),
        call("estimate_downtime", "24 hours", asset="T-020"),
    )

    assert unknown_name.find(run) == []


def test_failing_run_of_the_api_guide_gives_the_rule() -> None:
    run: Episode = make_run(
        call("get_reservation_details", {"cabin": "basic_economy", "insurance": "no"}, reservation_id="EHGLP3"),
        {**call("cancel_reservation", "", reservation_id="EHGLP3"), "error": RULE},
        task="Cancel reservation EHGLP3 and refund it",
    )

    (lesson,) = RulesReflector().reflect(run).lessons

    assert "`cabin` in the answer of `get_reservation_details` shows it." in lesson.text.guideline
