"""Throw-away servers for the tests, named before Django reads its settings (loaded with `-p tests.servers`)."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

PREFIX = "erl-tests-"
HOME = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
# Held as long as this run lives, however it ends: a home whose lock is free belongs to a dead run.
_ALIVE = (HOME / "alive.lock").open("w")
fcntl.flock(_ALIVE, fcntl.LOCK_EX)

for name in [*os.environ]:
    if name.startswith(("ERL_", "TEST_", "CELERY_", "DATABASE_")):
        del os.environ[name]
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # every process a test starts would compile everything anew
    os.environ["PYTHONPYCACHEPREFIX"] = str(HOME / "bytecode")
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
os.environ["ERL_ENV_FILE"] = os.devnull  # a developer's keys are not for tests
os.environ["ERL_HOME"] = str(HOME)
os.environ["TEST_EMBEDDED_DURABLE"] = os.environ.get("CHAOS_DURABLE", "0")  # the fault runner waits for the disk
os.environ["ERL_RETRIEVE_MEMORY_MB"] = "0"  # a thread that reads would be in the way of emptying the tables
os.environ["ERL_RATE_LIMITS"] = "reflect=600/60,evaluate=60/60,failed=1000/60"  # no broker for what records and asks
os.environ["TEST_API_MAX_WAIT_SECONDS"] = "0"  # on a loaded machine nobody is turned away
os.environ["TEST_DATABASE_CONN_MAX_AGE"] = "0"  # a live server's threads must not hold the test database open
if prepared := os.environ.get("CHAOS_PREPARED", ""):  # the fault runner makes the tables once for all its processes
    (HOME / "postgres").mkdir()
    subprocess.run(["cp", "-a", prepared, HOME / "postgres" / "data"], check=True)  # noqa: S607


def discard_home(home: Path) -> None:
    """End every process that works on a test home, and remove it."""
    ended = [process for process in psutil.process_iter() if _works_on(process, home)]
    for process in ended:
        with suppress(psutil.Error):  # PostgreSQL's way to end at once; nothing else needs to be asked
            process.send_signal(signal.SIGQUIT if process.name() == "postgres" else signal.SIGKILL)
    _, deaf = psutil.wait_procs(ended, timeout=10)
    for process in deaf:
        with suppress(psutil.Error):
            process.kill()
    shutil.rmtree(home, ignore_errors=True)


def _works_on(process: psutil.Process, home: Path) -> bool:
    if process.pid == os.getpid():
        return False
    with suppress(psutil.Error):
        return str(home) in " ".join(process.cmdline()) or process.environ().get("ERL_HOME", "").startswith(str(home))
    return False


def discard_dead_homes() -> None:
    """Clean up after runs that were killed."""
    for home in HOME.parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (home / "alive.lock").open("r+") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            discard_home(home.resolve())


@contextmanager
def throw_away_servers() -> Iterator[None]:
    """End the servers after a script, which has no pytest to do it."""
    try:
        yield
    finally:
        from django.db import connection  # of the settings that were read after this module

        connection.close()
        discard_home(HOME)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no process has one left when the others have ended."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_configure(config: pytest.Config) -> None:
    discard_dead_homes()


def pytest_unconfigure(config: pytest.Config) -> None:
    discard_home(HOME)
    _ALIVE.close()
