"""The parts of the test network work by themselves, on loopback addresses."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.cluster.balancer import make_command
from tests.cluster.load import find_longest_gap
from tests.programs import require_program
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly


HOSTS = ("127.0.0.2", "127.0.0.3")
PORT = 18080  # below the ephemeral ports


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Two web servers, and HAProxy before them."""
    program = require_program("haproxy")
    (tmp_path / "health").touch()
    commands: list[tuple[str, ...]] = [
        (sys.executable, "-m", "http.server", "--bind", host, str(PORT)) for host in HOSTS
    ]
    places = [f"{host}:{PORT}" for host in HOSTS]
    commands.append(make_command(program, tmp_path / "haproxy.cfg", place=f"127.0.0.9:{PORT}", servers=places))
    with ExitStack() as stack:
        started = []
        for command in commands:
            process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process)
        yield started


def ask(host: str = "127.0.0.9") -> int:
    try:
        return httpx.get(f"http://{host}:{PORT}/health", timeout=5).status_code
    except httpx.TransportError:
        return 0


def test_balancer_passes_over_a_host_that_was_killed(servers: list["subprocess.Popen[bytes]"]) -> None:
    wait_until(lambda: all(ask(host) == 200 for host in (*HOSTS, "127.0.0.9")))

    servers[0].kill()
    servers[0].wait()

    assert [ask() for _ in range(4)] == [200] * 4


def test_longest_gap_counts_from_the_beginning_to_the_end() -> None:
    assert find_longest_gap([2.0, 1.0, 5.0], begun=0.5, ended=6.0) == 3.0
    assert find_longest_gap([], begun=0.0, ended=4.0) == 4.0
