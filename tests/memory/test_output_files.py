"""Files that commands write hold texts of runs: only their owner may read them, and half of one is none."""

import errno
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from memory.management.options import open_output, write_file


def test_only_the_owner_may_read_a_written_file(tmp_path: Path) -> None:
    with open_output(tmp_path / "ana.jsonl") as file:
        file.write("{}\n")

    assert (tmp_path / "ana.jsonl").stat().st_mode & 0o077 == 0


def test_half_written_file_is_removed(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot be written: No space left"), open_output(tmp_path / "ana.jsonl"):
        raise OSError(errno.ENOSPC, "No space left on device")

    assert list(tmp_path.iterdir()) == []


def test_device_is_not_removed() -> None:
    with pytest.raises(CommandError, match=r"/dev/full cannot be written: No space left"):
        write_file(Path("/dev/full"), "half")

    assert Path("/dev/full").exists()
