"""A backup that was restored is the database, and one that is not is found out (reliability C8)."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from erl_site import backup
from memory.projects.actors import Actor
from memory.trust.erasure import erase_trajectory
from tests.factories import approve_as_read, make_heuristic, make_trajectory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

BY = Actor(label="user:ops")


def back_up(file: Path, *options: str) -> str:
    output = StringIO()
    call_command("backup", str(file), *options, stdout=output)
    return output.getvalue()


def test_restored_copy_is_the_database(tmp_path: Path) -> None:
    run = make_trajectory()
    approve_as_read(make_heuristic(trajectory=make_trajectory(project=run.project)), by=BY)
    erase_trajectory(run, by=BY)

    said = back_up(tmp_path / "erl.dump", "--drill")

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'erl_drill_%'")
        left = cursor.fetchone()[0]
    assert "restored and compared" in said
    assert (left, [path.name for path in tmp_path.iterdir()]) == (0, ["erl.dump"])


@pytest.mark.nightly
def test_copy_that_differs_is_found_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_trajectory()
    compare: Any = backup._digest_of
    monkeypatch.setattr(backup, "_digest_of", lambda name: compare(name) | {"public.memory_trajectory": (0, "0")})
    monkeypatch.setattr(backup, "CHECKS", ())  # comparing is enough to find it

    with pytest.raises(CommandError, match="memory_trajectory: 1 rows became 0"):
        back_up(tmp_path / "erl.dump", "--drill")

    assert list(tmp_path.iterdir()) == []


def test_dump_that_fails_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backup, "find_program", lambda name: "/bin/false")

    with pytest.raises(CommandError, match="false failed"):
        back_up(tmp_path / "erl.dump")

    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "erl.dump").write_text("mine")

    with pytest.raises(CommandError, match="--replace"):
        back_up(tmp_path / "erl.dump")

    assert (tmp_path / "erl.dump").read_text() == "mine"
