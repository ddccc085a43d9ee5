"""Every mutant still applies: its texts are in the code, and the tests that must notice it exist."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.mutants import ROOT, Change, Mutant, Outcome, changed, read_mutants, run_tests

MUTANTS = read_mutants()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tests that are no part of ERL, without its settings."""
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")


def test_names_of_mutants_are_unique() -> None:
    assert [name for name, times in Counter(mutant.name for mutant in MUTANTS).items() if times > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_applies(mutant: Mutant) -> None:
    texts: dict[str, str] = {}
    for change in mutant.changes:
        text = texts.get(change.file) or (ROOT / change.file).read_text(encoding="utf-8")
        assert text.count(change.old) == 1, f"{change.file} has this text {text.count(change.old)} times: {change.old}"
        assert change.old != change.new
        texts[change.file] = text.replace(change.old, change.new)
    for file, text in texts.items():
        if file.endswith(".py"):
            ast.parse(text)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_tests_of_a_mutant_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("[")[0].partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test


def test_text_that_is_not_there_once_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="2 times, not once"):
        Change(file="a.py", old="x = 1", new="x = 2").apply(tmp_path)


def test_changes_are_made_and_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\ny = 1\n")
    changes = (Change(file="a.py", old="x = 1", new="x = 2"), Change(file="a.py", old="y = 1", new="y = 2"))
    with changed(Mutant(name="m", tests=(), changes=changes), tmp_path):
        assert path.read_text() == "x = 2\ny = 2\n"
    assert path.read_text() == "x = 1\ny = 1\n"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert True", Outcome(passed=1)),
        ("assert False", Outcome(failed=1)),
        ("import no_such_module_of_ours", Outcome(failed=1)),
    ],
)
def test_outcome_of_tests_is_read(tmp_path: Path, alone: None, body: str, expected: Outcome) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    assert run_tests(("test_it.py",), tmp_path) == expected


@pytest.mark.nightly
def test_file_that_cannot_be_read_is_an_error_and_no_failure(tmp_path: Path, alone: None) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(:\n")
    assert run_tests(("test_it.py",), tmp_path) == Outcome(errors=1)
