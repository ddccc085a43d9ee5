"""Programs that no Python package has, and some tests need."""

import os
import shutil

import pytest


def find_program(name: str) -> str | None:
    """Return the path of a program, or None where it is not installed."""
    return shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")


def require_program(name: str) -> str:
    """Return the path of a program, or skip the test; where CI=true it has to be there."""
    found = find_program(name)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"{name} is not installed: install it (apt-get install {name}).")
    if found is None:
        pytest.skip(f"{name} is not installed; this test needs it (apt-get install {name}).")
    return found
