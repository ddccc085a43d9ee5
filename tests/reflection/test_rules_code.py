"""Code and queries that failed, run by real interpreters and a real database, and what made them run."""

from pathlib import Path
from typing import Any

import pytest

from reflection.reflectors.rules.detectors import changed_argument, guessed_name, refused_parameter, repaired_code
from tests.reflection.real_programs import python, shell, sql
from tests.reflection.rules_runs import call, view

UNKNOWN = sql("SELECT name FROM customer")
COLUMNS = sql("PRAGMA table_info(customer)")
RIGHT = sql("SELECT full_name FROM customer")
JOIN = "FROM customer c JOIN invoice i ON c.customer_id = i.customer_id"


@pytest.mark.parametrize(
    ("failing", "running", "guideline"),
    [
        (
            "print(dumps([1]))",
            "from json import dumps\nprint(dumps([1]))",
            "Write `from json import dumps` in the same code first: `dumps` is not there by itself.",
        ),
        ("import pandaz\nprint(1)", "import csv\nprint(1)", "Use `csv` instead: `pandaz` is not installed here."),
        ("print('a'.uper())", "print('a'.upper())", "Use `.upper` instead: `str` has no `.uper` here."),
        (
            "import datetime\nprint(datetime.now())",
            "import datetime\nprint(datetime.datetime.now())",
            "Write `datetime.datetime.now` instead: `datetime` itself has no `.now`.",
        ),
        (
            "print(sorted([1], revers=True))",
            "print(sorted([1], reverse=True))",
            "Pass `reverse` instead: `sort` takes no `revers`.",
        ),
        ("print(open('/dev/null', shut=1))", "print(open('/dev/null'))", "Leave it out: `open` takes no `shut`."),
        (
            "from collections import Iterable",
            "from collections.abc import Iterable\nprint(Iterable)",
            "Write `from collections.abc import Iterable` instead.",
        ),
    ],
)
def test_change_that_made_code_run_is_the_lesson(failing: str, running: str, guideline: str) -> None:
    (finding,) = repaired_code.find(view(python(failing), python(running)))

    assert finding.guideline == guideline


def test_variables_lost_between_calls_are_the_lesson() -> None:
    rows = "rows = [1, 2]\n"
    run = view(python(f"{rows}print(rows)"), python("print(sum(rows))"), python(f"{rows}print(sum(rows))"))

    (finding,) = repaired_code.find(run)

    assert finding.guideline.startswith("Define or load it again in the same code")


@pytest.mark.parametrize(
    ("failing", "running"),
    [
        ("print('a'.uper())", "print('A')"),  # done without it
        ("print(total)", "total = 1\nprint(total)"),  # a slip of this code alone
        ("print(1 / 0)", "print(1)"),  # nothing that another task would meet
    ],
)
def test_repair_of_this_code_alone_is_no_lesson(failing: str, running: str) -> None:
    assert repaired_code.find(view(python(failing), python(running))) == []


@pytest.mark.parametrize(
    ("failing", "running", "guideline"),
    [
        (f"SELECT customer_id {JOIN}", f"SELECT c.customer_id {JOIN}", "Write the table or its alias in front of"),
        ("SELECT YEAR('2024-01-02')", "SELECT strftime('%Y', '2024-01-02')", "Use `strftime` instead: this database"),
    ],
)
def test_change_that_made_a_query_run_is_the_lesson(failing: str, running: str, guideline: str) -> None:
    (finding,) = repaired_code.find(view(sql(failing), sql(running)))

    assert finding.guideline.startswith(guideline)


def test_columns_listed_after_a_guess_are_the_lesson() -> None:
    (finding,) = guessed_name.find(view(UNKNOWN, COLUMNS, RIGHT))

    assert finding.trigger == "When about to use `sql` on a table whose columns no answer has shown yet"
    assert finding.guideline.startswith("First list the columns with `PRAGMA table_info`")
    assert [citation.first_step for citation in finding.citations] == [1, 2, 3]


def test_guesses_without_a_lookup_name_the_usual_one() -> None:
    (finding,) = guessed_name.find(view(sql("SELECT a FROM customers"), sql("SELECT a FROM clients")))

    assert finding.guideline.startswith("First list the tables with `SELECT name FROM sqlite_master`")
    assert "the run never listed them" in finding.rationale


@pytest.mark.parametrize(
    "steps",
    [
        (COLUMNS, UNKNOWN, RIGHT),  # it had them before its eyes
        (UNKNOWN, RIGHT),  # the second guess was right
    ],
)
def test_guess_that_no_lookup_would_have_spared_is_no_lesson(steps: tuple[dict[str, Any], ...]) -> None:
    assert guessed_name.find(view(*steps)) == []


def test_keys_printed_after_a_guess_are_the_lesson() -> None:
    data = "d = {'Revenue': 1}\n"
    run = view(python(f"{data}d['revenue']"), python(f"{data}print(d.keys())"), python(f"{data}print(d['Revenue'])"))

    (finding,) = guessed_name.find(run)

    assert finding.guideline.startswith("First list the columns or keys with `.keys()`")


def test_name_of_the_interpreter_is_no_key_of_data() -> None:
    listed, fixed = python("print({}.keys())"), python("print(1)")

    assert guessed_name.find(view(python("print({}['__import__'])"), listed, fixed)) == []
    assert guessed_name.find(view(python("print({}['revenue'])"), listed, fixed)) != []


def test_paths_guessed_again_and_again_are_the_lesson(tmp_path: Path) -> None:
    (finding,) = guessed_name.find(view(*(shell(f"cp data/{name} .", tmp_path) for name in ("a", "b", "c"))))

    assert finding.trigger == "When about to use `cp` on files whose paths no answer has shown yet"
    assert finding.guideline == "First list the paths with `ls`, then copy them from its answer."


def test_path_that_did_not_exist_once_is_no_lesson(tmp_path: Path) -> None:
    assert guessed_name.find(view(shell("cp data/a .", tmp_path), shell("ls", tmp_path))) == []


@pytest.mark.parametrize(
    ("error", "arguments", "guideline"),
    [
        (
            "book() got an unexpected keyword argument 'colour'",
            {"city": "Rome", "colour": "red"},
            "Leave out `colour`: `book` has no such parameter.",
        ),
        ("book() missing 1 required positional argument: 'city'", {}, "Pass `city`: `book` requires it."),
        ("'city' is a required property", {}, "Pass `city`: `book` requires it."),
    ],
)
def test_parameters_that_a_signature_refuses_are_named(error: str, arguments: dict[str, Any], guideline: str) -> None:
    (finding,) = refused_parameter.find(view(call("book", {"error": error}, **arguments)))

    assert finding.guideline == guideline


def test_type_that_an_error_asks_for_is_named_though_it_was_left_out() -> None:
    refused = {"error": "", "response": "{'message': 'genre must be an integer: Comedy'}"}
    run = view(call("search", refused, country="US", genre="Comedy"), call("search", country="US"))

    (finding,) = changed_argument.find(run)

    assert finding.guideline.startswith("Give `genre` as a whole number.")


def test_function_named_otherwise_than_the_test_calls_it_is_the_lesson() -> None:
    code, refusal = "def longest(words):\n    return max(words)", 'Failed Test Case: assert len_log(["a"]) == 1'
    run = view(call("python", refusal, code=code), call("python", refusal, code=f"{code}\n"))

    (finding,) = repaired_code.find(run)

    assert finding.guideline.startswith("Define the function under exactly the name")


def test_indentation_of_a_script_is_no_text_to_match() -> None:
    run = view(
        call("run_script", "IndentationError: unexpected indent", text="  print(1)"),
        call("run_script", "1", text="print(1)"),
    )

    assert changed_argument.find(run) == []
