"""The supervisor restarts crashed processes, stops everything in time, and cleans up after a killed one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from erl_site.embedded import processes
from erl_site.embedded.home import EmbeddedServerError
from erl_site.embedded.supervisor import Backoff, Server, Service, Supervisor, end_leftovers
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parent.parent.parent
SLEEP = "import time; time.sleep(300)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)"
WITH_CHILD = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); time.sleep(300)"

Build = Callable[..., Supervisor]


def python(name: str, code: str) -> Service:
    return Service(name=name, command=("tests.run_code", code))


def poll_until(supervisor: Supervisor, condition: Callable[[], object]) -> None:
    def happened() -> object:
        supervisor.poll()
        return condition()

    wait_until(happened)


def pid_of(supervisor: Supervisor) -> int:
    process = supervisor.children[0].process
    assert process is not None
    assert process.pid is not None
    return process.pid


@pytest.fixture
def reports() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def build(tmp_path: Path, reports: list[tuple[str, str]]) -> Iterator[Build]:
    """Make supervisors; they are stopped afterwards."""
    built: list[Supervisor] = []

    def make(*services: Service, servers: tuple[Server, ...] = ()) -> Supervisor:
        supervisor = Supervisor(
            home=tmp_path,
            services=services,
            servers=servers,
            report=lambda name, sentence: reports.append((name, sentence)),
        )
        built.append(supervisor)
        return supervisor

    yield make
    for supervisor in built:
        supervisor.hurry = True
        supervisor.stop()


def test_backoff_doubles_up_to_its_limit() -> None:
    backoff = Backoff()

    assert [backoff.fail() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_killed_service_is_started_again(build: Build, reports: list[tuple[str, str]]) -> None:
    supervisor = build(python("web", SLEEP))
    supervisor.start()
    first = pid_of(supervisor)
    os.kill(first, signal.SIGKILL)

    poll_until(supervisor, lambda: supervisor.states() == {"web": "waiting"})
    poll_until(supervisor, lambda: supervisor.states() == {"web": "running"})

    assert pid_of(supervisor) != first
    assert reports[0][0] == "web"
    assert reports[0][1].startswith("was killed by signal 9; restarting in 1 s")
    assert reports[1] == ("web", "is running again")


def test_service_that_keeps_crashing_waits_longer_each_time(
    build: Build, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erl_site.embedded.supervisor.BACKOFF_FIRST_SECONDS", 0.1)
    supervisor = build(python("worker", "import sys; print('went wrong'); sys.exit(3)"))
    supervisor.start()

    poll_until(supervisor, lambda: supervisor.children[0].backoff.failures == 3)

    assert supervisor.children[0].backoff.fail() == pytest.approx(0.8)
    assert "ended with exit code 3" in reports[0][1]
    assert supervisor.log_of("worker").read_text().count("went wrong") == 3


def test_crash_also_ends_the_children_of_the_service(build: Build) -> None:
    supervisor = build(python("worker", WITH_CHILD))
    supervisor.start()
    leader = pid_of(supervisor)
    wait_until(lambda: len(members(leader)) == 2)
    os.kill(leader, signal.SIGKILL)

    poll_until(supervisor, lambda: supervisor.states() == {"worker": "waiting"})

    wait_until(lambda: not processes.group_runs(leader))


def members(group: int) -> list[int]:
    return [pid for pid in psutil.pids() if group_of(pid) == group]


def group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def test_stop_ends_a_cooperative_service_at_once(build: Build, tmp_path: Path) -> None:
    supervisor = build(python("web", SLEEP))
    supervisor.start()
    pid = pid_of(supervisor)

    supervisor.stop()

    assert not processes.group_runs(pid)
    assert not (tmp_path / "processes.json").exists()


def test_stop_kills_an_unresponsive_service_within_ten_seconds(build: Build) -> None:
    supervisor = build(python("web", DEAF))
    supervisor.start()
    pid = pid_of(supervisor)
    wait_until(lambda: "deaf" in supervisor.log_of("web").read_text())
    began = time.monotonic()

    supervisor.stop()

    assert time.monotonic() - began < 10
    assert not processes.group_runs(pid)


def test_stop_in_a_hurry_gives_no_grace(build: Build) -> None:
    supervisor = build(python("web", DEAF))
    supervisor.start()
    pid = pid_of(supervisor)
    wait_until(lambda: "deaf" in supervisor.log_of("web").read_text())
    supervisor.hurry = True
    began = time.monotonic()

    supervisor.stop()

    assert time.monotonic() - began < 3
    assert not processes.group_runs(pid)


def test_server_that_is_down_is_brought_back(
    build: Build, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erl_site.embedded.supervisor.SERVER_CHECK_SECONDS", 0.0)
    up: list[bool] = []
    server = Server(name="Valkey", is_running=lambda: bool(up), ensure=lambda: up.append(True), stop=up.clear)
    supervisor = build(servers=(server,))

    supervisor.poll()

    assert up == [True]
    assert reports == [("Valkey", "was down and is running again")]


def test_server_that_does_not_start_is_tried_again_later(
    build: Build, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erl_site.embedded.supervisor.SERVER_CHECK_SECONDS", 0.0)

    def refuse() -> None:
        raise EmbeddedServerError("The disk is full.")

    supervisor = build(servers=(Server(name="PostgreSQL", is_running=lambda: False, ensure=refuse, stop=lambda: None),))

    supervisor.poll()
    supervisor.poll()

    assert reports == [("PostgreSQL", "is down and does not start; next attempt in 1 s. The disk is full.")]


SUPERVISE = """
import sys, time
from pathlib import Path
from erl_site.embedded.supervisor import Service, Supervisor
commands = [("web", sys.argv[2]), ("worker", sys.argv[3])]
services = [Service(name=name, command=("tests.run_code", code)) for name, code in commands]
Supervisor(home=Path(sys.argv[1]), services=services).start()
print("started", file=sys.stderr)
time.sleep(300)
"""


def test_end_leftovers_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, str(tmp_path), SLEEP, WITH_CHILD]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as killed:
        assert killed.stderr is not None
        killed.stderr.readline()
        pids = [entry["pid"] for entry in json.loads((tmp_path / "processes.json").read_text())]
        wait_until(lambda: len(members(pids[1])) == 2)
        killed.kill()
    assert all(processes.group_runs(pid) for pid in pids)

    assert end_leftovers(tmp_path) == ["web", "worker"]

    wait_until(lambda: not any(processes.group_runs(pid) for pid in pids))


def test_end_leftovers_spares_a_process_with_a_reused_id(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as stranger:
        entry = {"name": "web", "pid": stranger.pid, "started_at": "another boot:1"}
        (tmp_path / "processes.json").write_text(json.dumps([entry]))

        assert end_leftovers(tmp_path) == []

        assert stranger.poll() is None
        stranger.kill()


def test_end_leftovers_with_nothing_recorded_does_nothing(tmp_path: Path) -> None:
    assert end_leftovers(tmp_path) == []
