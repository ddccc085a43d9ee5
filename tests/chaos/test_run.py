"""The runner of the faults covers all of them, and counts what their tests report."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.run import PROCESSES, Case, Run, _summarise, estimate_seconds, merge

ROOT = Path(__file__).resolve().parents[2]


def test_every_fault_has_a_line() -> None:
    assert [fault.name for fault in FAULTS] == [f"F{number}" for number in range(1, len(FAULTS) + 1)]
    assert len(FAULTS) >= 25


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_tests_and_commands_of_a_fault_exist(fault: Fault) -> None:
    assert fault.tests or fault.quick_command
    for command in (fault.quick_command, fault.full_command, fault.soak_command):
        assert not command or (ROOT / f"{command[0].replace('.', '/')}.py").exists()
    for test in (*fault.tests, *fault.quick_tests):
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test


@pytest.mark.parametrize(("profile", "minutes"), [("quick", 5), ("full", 25), ("soak", 75)])
def test_profile_takes_no_longer_than_the_page_says(profile: str, minutes: int) -> None:
    run = Run(profile=profile, seed=0, history="", ends_at=0, processes=PROCESSES[profile])
    assert estimate_seconds(list(FAULTS), run) <= minutes * 60


@pytest.mark.parametrize(("profile", "picked"), [("quick", (1, 1)), ("full", (2, 3)), ("soak", (3, 3))])
def test_profile_picks_its_numbers(profile: str, picked: tuple[int, int]) -> None:
    program = "from tests.chaos.profile import pick; print((pick(1, 3, full=2), pick(1, 3)))"
    environment = os.environ | {"CHAOS_PROFILE": profile}
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert ast.literal_eval(said.stdout.decode()) == picked


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
