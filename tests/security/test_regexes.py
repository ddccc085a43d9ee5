"""Regular expressions meet texts of strangers: whatever these say, the steps grow in proportion to their length."""

from itertools import islice

import pytest

from memory.transcripts.checks import _programs, judge
from tests.security.regexes import (
    MOST_GROWTH,
    Matcher,
    Use,
    find_database_expressions,
    find_uses,
    measure_growth,
)

pytestmark = pytest.mark.nightly

USES, UNTOLD = find_uses()
LOOPING = [use for use in USES if Matcher(use).program.loops]
MADE_BY_FUNCTIONS = {
    "memory/redaction/labels.py",
    "memory/redaction/spans.py",
    "reflection/reflectors/rules/code_faults.py",
    "reflection/reflectors/rules/errors.py",
}


@pytest.mark.parametrize("use", LOOPING, ids=lambda use: f"{use.where}"[-80:])
def test_steps_grow_in_proportion_to_the_text(use: Use) -> None:
    growth, text = measure_growth(use)

    assert growth < MOST_GROWTH, f"{use.where}: {use.pattern!r} grows by {growth:.2f} with {text}"


def test_every_expression_of_the_tree_is_found() -> None:
    # Those that functions make are held by the modules that call them, and are found there.
    assert {place.partition(":")[0] for place in UNTOLD} == MADE_BY_FUNCTIONS
    held = "\n".join(use.where for use in USES)
    assert [path for path in MADE_BY_FUNCTIONS if path.removesuffix(".py").replace("/", ".") not in held] == []
    assert len(USES) > 500


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\s*[-*+] +\S",  # many empty lines
        r"(?:uv\s+run(?:\s+-\S+(?:\s+\S+)?)*\s+)*pytest",
        r"(?:a|a)*b",
        r"(a+)+$",
        r"<query>(.*?)</query>",
        r"\w+@",
        r"\s+$",
        r"(?:x\d*|x)*y",
        r"(?i)k(?:[a-z]+ ?)+!",
    ],
)
def test_an_expression_that_is_slow_is_found_out(pattern: str) -> None:
    growth, _ = measure_growth(Use(where="here", pattern=pattern, flags=8))

    assert growth >= MOST_GROWTH


@pytest.mark.parametrize("pattern", [r"^[ \t]*[-*+] +\S", r"(?<!\s)\s+then", r"<a>[^<]*</a>", r"\b\w+\b", r"\d{1,9}x"])
def test_an_expression_that_is_fast_passes(pattern: str) -> None:
    growth, _ = measure_growth(Use(where="here", pattern=pattern, flags=8))

    assert growth < MOST_GROWTH


def test_expressions_of_the_database_refer_to_no_group() -> None:
    # All others PostgreSQL runs as an automaton, whose steps are counted by the length of the text.
    patterns = find_database_expressions()

    assert len(patterns) > 15
    assert [pattern for pattern in patterns if any(f"\\{digit}" in pattern for digit in "123456789")] == []


@pytest.mark.parametrize("word", ["uv run -x python -m", "uv run -a b", "env A=1", "timeout 1", "coverage run -p x"])
def test_programs_behind_many_wrappers_are_looked_for_once_each(word: str) -> None:
    words = f"{word} ".split() * 60

    assert len(list(islice(_programs(words), 10 * len(words)))) <= 2 * len(words)


@pytest.mark.parametrize(
    "command",
    ["uv run -x " + "python -m " * 70 + "pytest", "env " * 400 + "pytest -q", "uv run " + "-p a " * 300 + "pytest"],
)
def test_tests_behind_many_wrappers_are_still_seen(command: str) -> None:
    action = {"name": "Bash", "arguments": {"command": command}}

    assert judge([{"action": action, "observation": "1 passed", "error": ""}]) == ("success", "test")
