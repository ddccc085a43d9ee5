"""Throw-away servers for the tests, named before Django reads its settings (loaded with `-p tests.servers`)."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

PREFIX = "erl-tests-"
HOME = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
# Held as long as this run lives, however it ends: a home whose lock is free belongs to a dead run.
_ALIVE = (HOME / "alive.lock").open("w")
fcntl.flock(_ALIVE, fcntl.LOCK_EX)

for name in [*os.environ]:
    if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
        del os.environ[name]
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # every process a test starts would compile everything anew
    os.environ["PYTHONPYCACHEPREFIX"] = str(HOME / "bytecode")
os.environ["ERL_ENV_FILE"] = os.devnull  # a developer's keys are not for tests
os.environ["ERL_HOME"] = str(HOME)
os.environ["ERL_EMBEDDED_DURABLE"] = "0"
os.environ["ERL_DATABASE_CONN_MAX_AGE"] = "0"  # a live server's threads must not hold the test database open


def discard_home(home: Path) -> None:
    """Stop the servers of a test home and remove it."""
    from erl_site.embedded import postgres, valkey

    postgres.discard(home / "postgres")
    valkey.discard(home / "valkey")
    shutil.rmtree(home, ignore_errors=True)


def discard_dead_homes() -> None:
    """Clean up after runs that were killed."""
    for home in HOME.parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (home / "alive.lock").open("r+") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            discard_home(home.resolve())


def pytest_configure(config: pytest.Config) -> None:
    discard_dead_homes()


def pytest_unconfigure(config: pytest.Config) -> None:
    discard_home(HOME)
    _ALIVE.close()
