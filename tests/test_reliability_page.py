"""docs/reliability.md says what the suite shows, and nothing else."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
REQUIRED = [
    f"{letter}{number}"
    for letter, last in (("A", 17), ("B", 14), ("C", 12), ("D", 17))
    for number in range(1, last + 1)
]
STATUSES = ("met", "partly", "not")
PAGES = ["reliability.md", "threat-model.md", "appendix/asvs.md", "appendix/owasp-llm.md"]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_CODE = re.compile(r"`((?:memory|reflection|evaluation|erl_site)/[\w/.]*)`")
_LISTED = re.compile(r"\| (?:\d+\.\d|LLM\d)")
_FAULT = re.compile(r"\bF\d+\b")

ROWS = {
    cells[0]: cells
    for cells in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if re.match(r"\| [A-D]\d+ \|", line)
    )
}


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def missing_tests(page: str) -> list[str]:
    return [
        f"{path}::{name}"
        for path, name in _TEST.findall(page)
        if not (ROOT / path).exists() or name not in functions_of(path)
    ]


def test_every_requirement_has_a_row_in_order() -> None:
    assert list(ROWS) == REQUIRED


@pytest.mark.parametrize("id", REQUIRED)
def test_row_says_where_it_stands_and_what_is_missing(id: str) -> None:
    _, _, status, _, tests, _ = ROWS[id]
    word, _, lacking = status.partition(":")

    assert word in STATUSES
    assert (word == "met") != bool(lacking.strip()), "met says nothing more, anything else says what is missing"
    assert _TEST.search(tests)


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_the_page_names_exists(page: str) -> None:
    assert missing_tests((ROOT / "docs" / page).read_text(encoding="utf-8")) == []


def test_test_that_does_not_exist_is_noticed() -> None:
    assert missing_tests("`tests/test_reliability_page.py::test_of_a_dream` `tests/none.py::test_x`") == [
        "tests/test_reliability_page.py::test_of_a_dream",
        "tests/none.py::test_x",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_the_page_names_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [path for path in _CODE.findall(text) if not (ROOT / path).exists()] == []


def test_every_attack_that_was_tried_has_a_test() -> None:
    table = PAGE.partition("<!-- attacks: begin -->")[2].partition("<!-- attacks: end -->")[0]
    rows = table.strip().splitlines()[2:]
    assert len(rows) >= 10
    assert [row for row in rows if not _TEST.search(row)] == []


def test_every_attack_has_a_mutant() -> None:
    from tests.chaos.mutants import read_mutants

    table = PAGE.partition("<!-- attacks: begin -->")[2].partition("<!-- attacks: end -->")[0]
    noticing = {test.partition("[")[0] for mutant in read_mutants() for test in mutant.tests}
    rows = table.strip().splitlines()[2:]
    assert [row for row in rows if not {f"{path}::{name}" for path, name in _TEST.findall(row)} & noticing] == []


@pytest.mark.parametrize("page", ["appendix/asvs.md", "appendix/owasp-llm.md"])
def test_every_line_of_a_list_says_where_it_stands(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if _LISTED.match(line)]
    assert len(rows) >= 10
    assert [row for row in rows if row[2].partition(",")[0] not in ("met", "not", "operator") or not row[3]] == []


def test_every_fault_that_a_row_names_is_one_of_the_harness() -> None:
    from tests.chaos.faults import FAULTS

    named = {fault for cells in ROWS.values() for fault in _FAULT.findall(cells[-1])}

    assert named <= {fault.name for fault in FAULTS}
