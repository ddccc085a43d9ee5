"""Answers that name what would do, and calls that took it or did not."""

from pathlib import Path

import pytest

from reflection.reflectors.rules.alternatives import find_alternatives
from reflection.reflectors.rules.detectors import named_alternative, unknown_name
from tests.reflection.real_programs import shell
from tests.reflection.rules_runs import call, view

SONGS = "Could not find 'Hey Jud'. Similar: ['Hey Jude', 'Hey You']"
UNITS = {"error": "Invalid unit 'kelvin'. Valid values are: metric, imperial"}
NO_TOOL = "get_weather is not a valid tool, try one of [search, lookup]."


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (SONGS, ("Hey Jude", "Hey You")),
        ("AttributeError: 'str' object has no attribute 'uper'. Did you mean: 'upper'?", ("upper",)),
        ("argument --mode: invalid choice: 'fast' (choose from 'slow', 'quick')", ("slow", "quick")),
        ("argument --mode: invalid choice: 'fast' (choose from slow, quick)", ("slow", "quick")),
        ('HINT:  Perhaps you meant to reference the column "t.name".', ("t.name",)),
        ("The most similar commands are\n\tbranch\n\tfetch", ("branch", "fetch")),
        ('error: unknown command "gett" for "kubectl"\n\nDid you mean this?\n\tget\n', ("get",)),
        ('ERROR: unknown command "instal" - maybe you meant "install"', ("install",)),
        ('Terraform has no command named "aply". Did you mean "apply"?', ("apply",)),
        ("help: a function with a similar name exists: `print`", ("print",)),
        ("  tip: a similar subcommand exists: 'build'", ("build",)),
        ("level\n  Input should be 'low' or 'high' [type=literal_error]", ("low", "high")),
        ("'mid' is not one of ['low', 'high']", ("low", "high")),
        ("Unknown column: Revenue. Available columns: revenue, region", ("revenue", "region")),
        ("Error: invalid status. Valid values are open, closed and pending.", ("open", "closed", "pending")),
        ("Unknown table. Available tables:\n- users\n- orders", ("users", "orders")),
        ("Import of os is not allowed. Authorized imports are: ['math', 're']", ("math", "re")),
        ("No such option: --forse Did you mean --force?", ("--force",)),
    ],
)
def test_alternatives_are_read_from_real_wordings(answer: str, names: tuple[str, ...]) -> None:
    alternatives = find_alternatives(answer)

    assert alternatives is not None
    assert alternatives.names == names


@pytest.mark.parametrize(
    "answer",
    [
        "The order must be one of the items the customer bought.",
        "Did you mean to do that? Please check.",
        "There are no valid options here.",
        "You can find similar offers on our page.",
    ],
)
def test_prose_names_no_alternatives(answer: str) -> None:
    assert find_alternatives(answer) is None


def test_value_taken_from_an_answer_is_the_lesson() -> None:
    (finding,) = named_alternative.find(
        view(call("play_song", SONGS, title="Hey Jud"), call("play_song", "Playing", title="Hey Jude"))
    )

    assert finding.trigger == 'When `play_song` answers "Could not find …" and names others'
    assert finding.guideline.startswith("Take `title` from the names in that answer, exactly as written there")
    assert [citation.quote for citation in finding.citations] == [SONGS, "Hey Jude"]


def test_values_an_argument_takes_are_named() -> None:
    (finding,) = named_alternative.find(
        view(call("set_unit", UNITS, unit="kelvin"), call("set_unit", unit="metric"), outcome="success")
    )

    assert finding.guideline == "Give `unit` as one of `metric` or `imperial`: it takes no other."


def test_names_never_taken_in_a_failed_run_are_the_same_lesson() -> None:
    (finding,) = named_alternative.find(view(call("set_unit", UNITS, unit="kelvin")))

    assert finding.guideline == "Give `unit` as one of `metric` or `imperial`: it takes no other."
    assert "took none of them" in finding.rationale


def test_names_that_a_good_run_did_not_need_are_ignored() -> None:
    assert named_alternative.find(view(call("set_unit", UNITS, unit="kelvin"), outcome="success")) == []


def test_other_value_than_those_named_is_no_lesson() -> None:
    assert named_alternative.find(view(call("set_unit", UNITS, unit="kelvin"), call("set_unit", unit="si"))) == []


def test_choices_of_an_option_come_from_the_program(tmp_path: Path) -> None:
    (tmp_path / "plan.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--mode', choices=['slow', 'quick'])\nprint(p.parse_args())\n"
    )

    run = view(shell("python3 plan.py --mode fast", tmp_path), shell("python3 plan.py --mode quick", tmp_path))
    (finding,) = named_alternative.find(run)

    assert finding.trigger == "When about to use `--mode` of `plan.py`"
    assert finding.guideline == "Give it one of `slow` or `quick`: it takes no other."


def test_misspelt_command_is_no_lesson(tmp_path: Path) -> None:
    run = view(shell("git init .; git stauts", tmp_path), shell("git status", tmp_path))

    assert named_alternative.find(run) == []


def test_missing_tool_called_again_and_again_names_the_tools() -> None:
    (finding,) = unknown_name.find(view(call("get_weather", NO_TOOL, city="a"), call("get_weather", NO_TOOL, city="b")))

    assert finding.guideline == (
        "Do not call it: there is no tool `get_weather` here. The tools are `search` and `lookup`."
    )


def test_missing_tool_called_once_is_no_lesson_if_the_run_went_on() -> None:
    assert unknown_name.find(view(call("get_weather", NO_TOOL, city="a"), call("search", "sunny", text="b"))) == []


def test_missing_tool_with_which_a_run_ended_is_the_lesson() -> None:
    (finding,) = unknown_name.find(view(call("get_weather", NO_TOOL, city="a")))

    assert finding.guideline.startswith("Do not call it: there is no tool `get_weather` here.")


def test_program_that_is_not_installed_is_named_once_it_was_wanted_twice(tmp_path: Path) -> None:
    run = view(*(shell(f"ls | gnuparallel -j {n} gzip", tmp_path) for n in (1, 2)))

    (finding,) = unknown_name.find(run)

    assert finding.guideline == "Do without `gnuparallel`: it is not installed here. Use a program that is."
