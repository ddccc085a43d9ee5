"""A machine that is not as it should be: no space, any umask, no shared memory, a database that only reads."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.checks import run_checks

from erl_site.checks import services
from erl_site.embedded import postgres
from erl_site.embedded.home import home_unusable
from erl_site.embedded.roles import ADMINISTRATOR
from tests.stack import ROOT, free_port, migrated_home


def run(home: Path, *command: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ERL_HOME": str(home), "DJANGO_SETTINGS_MODULE": "erl_site.settings"}
    environment.pop("DATABASE_URL", None)
    program = [*prefix, sys.executable, "manage.py", *command]
    return subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    postgres.discard(tmp_path / "postgres")


def test_home_without_space_is_not_called_another_users() -> None:
    error = home_unusable(Path("/srv/erl"), OSError(errno.ENOSPC, "No space left on device"))

    assert str(error) == "/srv/erl cannot be used (No space left on device). Free some space, and start again."


def test_missing_shared_memory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(services, "SHARED_MEMORY", str(tmp_path / "shm"))

    (message,) = run_checks()

    assert message.id == "erl.services.W001"


@pytest.mark.nightly
def test_disk_that_is_too_small_for_the_database_is_named(home: Path) -> None:
    # Only the processes of this command see the file system of 20 MB.
    mount = f"mount -t tmpfs -o size=20m tmpfs '{home}' && exec \"$@\""
    done = run(home, "migrate", prefix=("unshare", "--mount", "sh", "-c", mount, "sh"))

    assert done.stderr.endswith(f"Free some space on the disk with {home}/postgres, and start again.\n")


@pytest.mark.nightly
def test_quickstart_with_no_umask_leaves_nothing_that_others_may_write(home: Path) -> None:
    home.chmod(0o755)
    done = run(
        home, "quickstart", "--once", "--port", str(free_port()), prefix=("sh", "-c", 'umask 0; exec "$@"', "sh")
    )

    assert done.returncode == 0, done.stderr
    assert (home / "celerybeat-schedule.dat").exists()
    assert [path for path in home.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022] == []


@pytest.mark.nightly
def test_command_on_a_database_that_only_reads_says_so(home: Path) -> None:
    migrated_home(home)
    url = postgres.ensure(home / "postgres", durable=False)
    with psycopg.connect(url, user=ADMINISTRATOR, autocommit=True) as administrator:
        administrator.execute("ALTER DATABASE erl SET default_transaction_read_only = on")

    done = run(home, "create_api_key", "--project=demo", "--client=agent", "--create-project")

    assert done.returncode == 1
    assert done.stderr.startswith("The database takes no writes: ")
