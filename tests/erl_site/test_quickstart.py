"""`manage.py quickstart` as users run it: a separate process with its own home."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from erl_site.embedded import postgres, processes, valkey
from tests.servers import HOME, discard_home
from tests.stack import ROOT, free_port, migrated_home
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db  # so that there are tables to copy where these tests run alone
COUNTED = [
    "memory_project", "memory_apikey", "memory_trajectory", "memory_heuristic", "memory_review", "memory_evidence",
    "reflection_runpatterns", "auth_user", "agents_run", "agents_approval",
]  # fmt: skip


@dataclass(kw_only=True)
class Quickstart:
    """A home and a port for quickstarts."""

    home: Path
    port: int

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "manage.py", "quickstart", "--port", str(self.port), *options]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"ERL_HOME": str(self.home), "TEST_EMBEDDED_DURABLE": "0"}

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*options),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    @contextmanager
    def started(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        """Start one and hand it over as soon as it is ready."""
        with subprocess.Popen(
            self.command(*options),
            cwd=ROOT,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                assert process.stdout is not None
                said = ""
                while "Press Ctrl-C" not in said:
                    line = process.stdout.readline()
                    assert line, said
                    said += line
                yield process
            finally:
                process.kill()

    def count_rows(self) -> dict[str, int]:
        url = postgres.ensure(self.home / "postgres", durable=False)
        with psycopg.connect(url) as connection:
            return {table: connection.execute(f"select count(*) from {table}").fetchone()[0] for table in COUNTED}  # type: ignore[index] # noqa: S608


@pytest.fixture
def quickstart() -> Iterator[Quickstart]:
    """A home that is empty, and without servers or processes afterwards."""
    yield from cleaned_up(Quickstart(home=new_home(), port=free_port()))


@pytest.fixture
def begun(django_db_setup: None) -> Iterator[Quickstart]:
    """A home whose database has its tables."""
    yield from cleaned_up(Quickstart(home=migrated_home(new_home()), port=free_port()))


@pytest.fixture(scope="module")
def running(django_db_setup: None) -> Iterator[Quickstart]:
    """A quickstart that runs, without sample."""
    for quickstart in cleaned_up(Quickstart(home=migrated_home(new_home()), port=free_port())):
        with quickstart.started("--no-sample"):
            yield quickstart


def new_home() -> Path:
    return Path(tempfile.mkdtemp(prefix="q-", dir=HOME))


def cleaned_up(quickstart: Quickstart) -> Iterator[Quickstart]:
    yield quickstart
    discard_home(quickstart.home)


def recorded_pids(home: Path) -> list[int]:
    return [entry["pid"] for entry in json.loads((home / "processes.json").read_text())]


@pytest.mark.slow
def test_quickstart_once_closes_the_loop_and_a_second_run_changes_nothing(quickstart: Quickstart) -> None:
    first = quickstart.run("--once", "--json")
    rows = quickstart.count_rows()
    second = quickstart.run("--once", "--json")

    assert first.returncode == 0, first.stderr
    access = json.loads(first.stdout)
    assert access["base_url"] == f"http://127.0.0.1:{quickstart.port}/api/v1"
    assert sorted(access) == ["admin_password", "admin_url", "admin_user", "api_key", "base_url", "project"]
    assert all(access.values())
    kept = quickstart.home / "quickstart.json"
    assert json.loads(kept.read_text()) == access
    assert kept.stat().st_mode & 0o777 == 0o600
    assert rows["memory_trajectory"] == rows["reflection_runpatterns"] == 24
    assert rows["memory_review"] == 7  # of three lessons, three tools and the agent that has them
    assert "the policy quickstart-demo approved" in first.stderr
    assert f"It waits for your decision: {access['admin_url']}agents/approval/" in first.stderr
    assert len(set(re.findall(r"^ +\d\. \[H-\w+\] (When .+?): ", first.stderr, re.MULTILINE))) == 3
    assert f"curl -s {access['base_url']}/retrieve" in first.stderr
    url = access["base_url"].removesuffix("/api/v1")
    assert f"export ERL_URL={url} ERL_API_KEY={access['api_key']}" in first.stderr

    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout) == access
    assert quickstart.count_rows() == rows
    assert not (quickstart.home / "processes.json").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_running_quickstart_serves_with_its_key(running: Quickstart) -> None:
    access = json.loads((running.home / "quickstart.json").read_text())

    answer = httpx.get(f"{access['base_url']}/heuristics", headers={"Authorization": f"Bearer {access['api_key']}"})

    assert answer.json()["pagination"]["total"] == 0


@pytest.mark.nightly
@pytest.mark.slow
def test_second_quickstart_points_to_the_running_one(running: Quickstart) -> None:
    again = running.run()

    assert (again.returncode, again.stdout.split(" (")[0]) == (0, f"ERL is already running at {running.url}")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("content", ["", '{"base_url": 5}'])
def test_second_quickstart_with_a_damaged_file_says_what_to_do(running: Quickstart, content: str) -> None:
    path = running.home / "quickstart.json"
    kept = path.read_text()
    path.write_text(content)

    again = running.run()

    path.write_text(kept)
    assert again.returncode == 1
    assert again.stderr.startswith("CommandError: Another quickstart is starting or stopping")
    assert f"or {path} is damaged" in again.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_quickstart_replaces_a_damaged_file(begun: Quickstart) -> None:
    path = begun.home / "quickstart.json"
    path.write_text(json.dumps({"api_key": 5, "admin_password": ["x"], "base_url": {}, "admin_url": None}))

    with begun.started("--no-sample"):
        access = json.loads(path.read_text())

    assert access["api_key"].startswith("erl_")
    assert access["admin_password"]


@pytest.mark.nightly
@pytest.mark.slow
def test_running_quickstart_restarts_a_killed_worker(running: Quickstart) -> None:
    web, worker, *others = recorded_pids(running.home)
    os.kill(worker, signal.SIGKILL)

    wait_until(lambda: recorded_pids(running.home) != [web, worker, *others], seconds=40)

    assert [recorded_pids(running.home)[0], *recorded_pids(running.home)[2:]] == [web, *others]


@pytest.mark.nightly
@pytest.mark.slow
def test_running_quickstart_brings_killed_servers_back(running: Quickstart) -> None:
    broker = valkey.process_id(running.home / "valkey")
    assert broker is not None
    os.kill(broker, signal.SIGKILL)
    os.kill(int((running.home / "postgres/data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    wait_until(lambda: valkey.is_running(running.home / "valkey"), seconds=40)
    wait_until(lambda: postgres.is_running(running.home / "postgres"), seconds=40)
    wait_until(lambda: httpx.get(f"{running.url}/ready").status_code == 200, seconds=40)


@pytest.mark.nightly
@pytest.mark.slow
def test_quickstart_after_a_killed_one_ends_what_it_left_and_stops_on_ctrl_c(begun: Quickstart) -> None:
    with begun.started("--no-sample") as killed:
        left = recorded_pids(begun.home)
        killed.kill()
    assert all(processes.group_runs(pid) for pid in left)

    with begun.started("--no-sample") as process:
        assert not any(processes.group_runs(pid) for pid in left)
        pids = recorded_pids(begun.home)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        assert time.monotonic() - began < 10
        assert process.returncode == 0
    assert not any(processes.group_runs(pid) for pid in pids)
    assert not postgres.is_running(begun.home / "postgres")
    assert not valkey.is_running(begun.home / "valkey")


def test_quickstart_with_a_busy_port_names_the_option(quickstart: Quickstart) -> None:
    with socket.create_server(("127.0.0.1", quickstart.port)):
        refused = quickstart.run()

    assert refused.returncode == 1
    assert f"Port {quickstart.port} on 127.0.0.1 is in use by another program." in refused.stderr
    assert "--port" in refused.stderr
    assert not (quickstart.home / "postgres").exists()


def test_reset_without_confirmation_deletes_nothing(quickstart: Quickstart) -> None:
    (quickstart.home / "postgres").mkdir()

    refused = quickstart.run("--reset")

    assert refused.returncode == 1
    assert "add --yes" in refused.stderr
    assert (quickstart.home / "postgres").exists()
