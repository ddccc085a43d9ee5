"""Run the suite and print its table: `python -m tests.providers`."""

import sys

import pytest

from tests.providers.imitation import Imitation
from tests.providers.table import write_table


class Results:
    """The tests that passed and that failed, as pytest reports them."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[2]
        if report.failed:
            self.failed.add(name)
        elif report.when == "call":
            self.passed.add(name)

    def is_passed(self, imitation: type[Imitation], case: str) -> bool:
        """Tell whether a case passed on a provider in all its variants; one for all providers at once has no name."""
        tests = (f"{case}[{imitation.name}-", f"{case}")
        return any(_is_of(name, *tests) for name in self.passed - self.failed) and not any(
            _is_of(name, *tests) for name in self.failed
        )


def _is_of(test: str, beginning: str, whole: str) -> bool:
    return test.startswith(beginning) or test == whole


if __name__ == "__main__":
    results = Results()
    code = pytest.main(["tests/providers", "-q", "--dist", "load", *sys.argv[1:]], plugins=[results])
    print(write_table(results.is_passed))
    sys.exit(code)
