"""Scripts, exceptions, names and paths: what real programs answer."""

from pathlib import Path

import pytest

from reflection.reflectors.rules.detectors import (
    changed_argument,
    changed_command,
    guessed_name,
    repaired_code,
    unknown_name,
)
from tests.reflection.real_programs import python, shell
from tests.reflection.rules_runs import call, view


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "c.txt").write_text("three\n")
    return tmp_path


def test_script_that_may_not_be_executed_is_given_to_its_interpreter(folder: Path) -> None:
    (folder / "build.sh").write_text("echo built\n")

    (finding,) = changed_command.find(view(shell("./build.sh", folder), shell("bash ./build.sh", folder)))

    assert finding.guideline.startswith("Give it to its interpreter, here `bash`")


@pytest.mark.parametrize(
    ("codes", "guideline"),
    [
        (("print(math.sqrt(4))",), "Write `import math` in the same code first"),
        (("print(Counter('aab'))",), "Write `from collections import Counter` in the same code first"),
        (("rows = [1]\nprint(rows)", "print(rows)"), "Define or load it again in the same code"),
        (("import pandaz", "import pandaz\nprint(1)"), "Do without `pandaz`"),
    ],
)
def test_exception_that_was_never_repaired_tells_what_is_sure(codes: tuple[str, ...], guideline: str) -> None:
    (finding,) = repaired_code.find(view(*map(python, codes)))

    assert finding.guideline.startswith(guideline)


def test_name_that_nothing_explains_is_no_lesson() -> None:
    assert repaired_code.find(view(python("print(total)"))) == []


def test_arguments_with_which_a_test_calls_a_function_are_the_lesson() -> None:
    error = "TypeError: area() takes 1 positional argument but 2 were given"

    (finding,) = repaired_code.find(view(call("submit", error, code="def area(side):\n    return side * side")))

    assert finding.guideline.startswith("Give the function exactly the arguments")


def test_tool_with_a_misspelt_name_is_named() -> None:
    run = view(call("get_wheather", "Error: unknown tool get_wheather"), tools=("get_weather", "book_flight"))

    (finding,) = unknown_name.find(run)

    assert finding.guideline == "Call `get_weather` instead: there is no tool `get_wheather` here."


def test_file_that_a_search_found_elsewhere_is_the_lesson(folder: Path) -> None:
    (finding,) = guessed_name.find(
        view(shell("cat a.txt", folder), shell("find . -name a.txt", folder), shell("cat ./src/a.txt", folder))
    )

    assert finding.guideline == "First list the paths with `find`, then copy them from its answer."


def test_path_that_a_lookup_returned_is_the_lesson() -> None:
    run = view(
        call("read_file", "Error: file not found", path="src/app.py"),
        call("search_files", "src/web/app.py", pattern="app"),
        call("read_file", "import os", path="src/web/app.py"),
    )

    (finding,) = changed_argument.find(run)

    assert finding.guideline.startswith("First call `search_files` and copy `path` from its answer.")
