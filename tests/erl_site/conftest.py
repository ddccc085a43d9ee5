"""Places for embedded servers."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import HOME


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path, which the next run cleans up where this one is killed."""
    with tempfile.TemporaryDirectory(prefix="p-", dir=HOME, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder every user can reach (pytest's own are private), removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="erl-reachable-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder).resolve()


@pytest.fixture
def private() -> Iterator[Path]:
    """A folder with a short path that no other user can reach."""
    with tempfile.TemporaryDirectory(prefix="erl-private-") as folder:
        yield Path(folder).resolve()
