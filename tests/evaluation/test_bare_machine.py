"""A fresh machine: no database, no settings, no API key."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.db import connection

from evaluation.errors import DatabaseBehind
from evaluation.runner import prepare_database
from tests.stack import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="erl-bare-") as folder:  # short, because socket paths are limited
        yield Path(folder)
        manage(Path(folder), "embedded", "stop")


def manage(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with an environment that names only the home directory."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    environment = kept | {"ERL_HOME": str(home), "ERL_ENV_FILE": os.devnull, "TEST_EMBEDDED_DURABLE": "0"}
    environment["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_evaluation_works_on_a_fresh_machine(home: Path) -> None:
    written = [manage(home, "evaluate", "--suite", "replay", "--json", "-") for _ in range(2)]

    assert [each.returncode for each in written] == [0, 0], written[0].stderr
    assert ["new database" in each.stderr for each in written] == [True, False]
    first, second = (json.loads(each.stdout) | {"timing": None} for each in written)
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.django_db
def test_external_database_without_tables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ENGINE", "django.db.backends.postgresql")
    monkeypatch.setattr("django.db.migrations.recorder.MigrationRecorder.applied_migrations", lambda recorder: {})

    with pytest.raises(DatabaseBehind, match=r"manage.py migrate` first"):
        prepare_database()
