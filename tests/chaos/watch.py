"""A pytest plugin that writes down each test as it ends, so that a run that is stopped still says what it saw."""

import json
import os
import sys
from pathlib import Path

import pytest

LONG_SECONDS = 5  # tests that take longer are announced when they end


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a line for each phase of a test: set-up, call, tear-down."""
    if path := os.environ.get("CHAOS_CASES"):
        line = {"test": report.nodeid, "seconds": round(report.duration, 3), "passed": report.passed}
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
    if report.when == "call" and report.duration > LONG_SECONDS:
        print(f"{report.nodeid} {report.outcome} after {report.duration:.0f} s", file=sys.stderr, flush=True)
