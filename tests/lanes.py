"""Two lanes of tests: those of every commit, and those marked nightly (loaded with `-p tests.lanes`).

uv run pytest                         every commit
uv run pytest -m nightly              matrices in full, load, kills, fresh machines, other people's SDKs, axe
uv run pytest -m nightly --fifth 3    the third part of them: `.ci/run` takes another one each day
"""

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest

PARTS = 5


def nightly_unless(chosen: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Return the parameters of a test: those chosen are tried with every commit, the others at night."""
    return [value if chosen(value) else pytest.param(value, marks=pytest.mark.nightly) for value in values]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fifth", type=int, choices=range(1, PARTS + 1), help="Run one fifth of the chosen files.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    fifth = config.getoption("fifth")
    if fifth is None:
        return
    chosen = [item for item in items if part_of(item.nodeid.split("::")[0]) == fifth]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def part_of(path: str) -> int:
    """Return the part, 1 to 5, that a file belongs to, the same in every process."""
    return zlib.crc32(path.encode()) % PARTS + 1
