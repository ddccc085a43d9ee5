"""The runner of the faults covers all of them, and counts what their tests report."""

import ast
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.run import Case, _summarise, merge

ROOT = Path(__file__).resolve().parents[2]


def test_every_fault_has_a_line() -> None:
    assert [fault.name for fault in FAULTS] == [f"F{number}" for number in range(1, len(FAULTS) + 1)]
    assert len(FAULTS) >= 25


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_tests_and_commands_of_a_fault_exist(fault: Fault) -> None:
    assert fault.tests or fault.quick_command
    for command in (fault.quick_command, fault.full_command):
        assert not command or (ROOT / f"{command[0].replace('.', '/')}.py").exists()
    for test in (*fault.tests, *fault.quick_tests):
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test


def test_counts_of_several_tests_are_added_and_times_are_not() -> None:
    reports = [
        {"fault": "F2", "seed": 7, "work": "approve", "points": 4, "violations": 0, "p99_ms": 9},
        {"fault": "F2", "seed": 7, "work": "erase", "points": 5, "violations": 1, "p99_ms": 7},
    ]

    assert merge(reports) == {"work": ["approve", "erase"], "points": 9, "violations": 1, "p99_ms": 9}


def test_fault_whose_test_did_not_run_has_not_passed() -> None:
    fault = Fault(name="F2", what="", tests=("tests/a.py", "tests/b.py::test_b"))
    ran = Case(path="tests/a.py", name="test_a", seconds=1.0, passed=True)

    assert not _summarise(fault, fault.tests, [ran], [])["passed"]
    assert _summarise(fault, fault.tests, [ran, Case(path="tests/b.py", name="test_b", seconds=1.0, passed=True)], [])[
        "passed"
    ]
