"""The source where a package or an image puts it: read-only, on a path with spaces, run by an id without a name."""

import os
import pwd
import shutil
import site
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack import PACKAGES, ROOT

pytestmark = pytest.mark.nightly
UID = 54_321
PYTHON = "/usr/bin/python3.11"  # others may not read the one of root


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the product that belongs to root, which the id may read and not write."""
    with pytest.raises(KeyError):
        pwd.getpwuid(UID)
    if os.geteuid() != 0 or not Path(PYTHON).exists():
        pytest.fail("Only root can start a process under another id, which needs a Python that it can read.")
    folder = Path("/var/tmp/erl operator")
    shutil.rmtree(folder, ignore_errors=True)
    for name in (*PACKAGES, "templates"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "manage.py", folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def home(tmp_path: Path, source: Path) -> Iterator[Path]:
    folder = Path("/var/tmp/erl operator data")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chown(folder, UID, UID)
    yield folder
    shutil.rmtree(folder)


def run(source: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py as the id, which has no home directory and nothing else in its environment."""
    told = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(site.getsitepackages()), "ERL_ENV_FILE": os.devnull}
    return subprocess.run(
        [PYTHON, "manage.py", *command], cwd=source, env=told | environment, capture_output=True, text=True,
        user=UID, group=UID, extra_groups=[],
    )  # fmt: skip


def test_read_only_source_asks_for_a_home(source: Path) -> None:
    done = run(source, "check")

    assert done.stderr.startswith(f"{source}/.erl cannot be used")
    assert "set ERL_HOME to a folder of your own" in done.stderr


def test_home_of_a_user_without_one_is_named(source: Path) -> None:
    done = run(source, "check", ERL_HOME="~/erl")

    assert done.stderr == "ERL_HOME is ~/erl, and this user has no home directory. Write the whole path.\n"


def test_id_without_a_name_starts_with_a_database_elsewhere(source: Path, home: Path) -> None:
    done = run(source, "check", ERL_HOME=str(home), DATABASE_URL="postgresql://erl@db.example/erl")

    assert done.returncode == 0, done.stderr
    assert (home / "secret_key").exists()


def test_id_without_a_name_is_told_what_initdb_needs(source: Path, home: Path) -> None:
    done = run(source, "migrate", ERL_HOME=str(home))

    assert f"the user id {UID} has no entry in /etc/passwd" in done.stderr
    assert "Nothing was changed" in done.stderr
