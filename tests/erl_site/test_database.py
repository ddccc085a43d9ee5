"""The database backend that starts its server when it is needed, and not before."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from erl_site.embedded import accounts, postgres
from tests.servers import HOME
from tests.stack import ROOT


@pytest.fixture
def home(place: Path) -> Iterator[Path]:
    yield place
    postgres.discard(place / "postgres")


def manage(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=os.environ | {"ERL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_starts_no_server(home: Path) -> None:
    assert manage(home, "check").returncode == 0
    assert not (home / "postgres").exists()
    assert not (home / "valkey").exists()


def test_first_query_starts_the_server(home: Path) -> None:
    assert manage(home, "migrate", "auth", "--plan").returncode == 0
    assert postgres.is_running(home / "postgres")


@pytest.mark.django_db(transaction=True)
def test_query_after_the_server_was_killed_works() -> None:
    connection.close()
    os.kill(int((HOME / "postgres" / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    with connection.cursor() as cursor:
        cursor.execute("select 1")
        assert cursor.fetchone() == (1,)


@pytest.mark.django_db(transaction=True)
def test_query_where_no_server_can_run_is_an_operational_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connection.close()
    monkeypatch.setattr("django.conf.settings.ERL_HOME", tmp_path)
    monkeypatch.setattr(accounts, "PACKAGE", "embedded_postgres_that_is_not_installed")
    try:
        with pytest.raises(OperationalError, match="is not installed"), connection.cursor():
            pass
    finally:
        monkeypatch.undo()
        connection.close()
