"""A backup that was restored is the database, and one that is not is found out (reliability C8)."""

import json
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


def test_restored_copy_is_the_database(tmp_path: Path) -> None:
    run = make_trajectory()
    approve_as_read(make_heuristic(trajectory=make_trajectory(project=run.project)), by=BY)
    erase_trajectory(run, by=BY)
    output = StringIO()

    call_command("backup_drill", "--json", "--keep", str(tmp_path / "erl.dump"), stdout=output)

    drill = json.loads(output.getvalue())
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'erl_drill_%'")
        left = cursor.fetchone()[0]
    assert (drill["faults"], drill["erasures_replayed"], left) == ([], 1, 0)
    assert drill["rows"] > 10
    assert (tmp_path / "erl.dump").stat().st_size == drill["dump_bytes"]


def test_copy_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    make_trajectory()
    compare: Any = backup._digest_of

    def lose_a_row(name: str) -> Any:
        return compare(name) | {"public.memory_trajectory": (0, "0")}

    monkeypatch.setattr(backup, "_digest_of", lose_a_row)
    monkeypatch.setattr(backup, "CHECKS", ())  # comparing is enough to find it
    output = StringIO()

    with pytest.raises(CommandError) as raised:
        call_command("backup_drill", stdout=output)

    assert raised.value.returncode == 1
    assert "memory_trajectory: 1 rows became 0" in output.getvalue()
