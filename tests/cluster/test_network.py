"""The parts of the test network work by themselves."""

import sys

import pytest

from tests.cluster.hosts import find_obstacle, run_in_laboratory
from tests.cluster.load import find_longest_gap
from tests.stack import ROOT

_SCRIPT = """
import http.client, os, sys, tempfile, time
from tests.cluster.hosts import GATEWAY, Host, make_network
make_network()
with tempfile.TemporaryFile() as log:
    hosts = [Host(name=f"web{n}", number=n, cores=0.5) for n in (2, 3)]
    for host in hosts:
        host.start(sys.executable, "-m", "http.server", "--bind", host.address, "8000", log=log)
    balancer = Host(name="balancer", number=9, cores=0)
    places = [f"{host.address}:8000" for host in hosts]
    balancer.start(sys.executable, "-m", "tests.cluster.balancer", f"{balancer.address}:80", *places, log=log)
    def ask():
        for _ in range(200):
            try:
                connection = http.client.HTTPConnection(balancer.address, timeout=5)
                connection.request("GET", "/LICENSE")
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
    both = ask(), ask()
    used = [host.read_cpu_seconds() > 0 for host in hosts]
    killed = hosts[0].kill() > 0
    print(both, used, killed, ask(), ask())
    for host in (hosts[1], balancer):
        host.kill()
"""


@pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "there is none")
def test_balancer_passes_over_a_host_that_was_killed() -> None:
    told = run_in_laboratory(sys.executable, "-c", _SCRIPT, cwd=ROOT, capture_output=True, timeout=100)

    assert told.stdout.strip() == "(200, 200) [True, True] True 200 200", told.stderr


def test_longest_gap_counts_from_the_beginning_to_the_end() -> None:
    assert find_longest_gap([2.0, 1.0, 5.0], begun=0.5, ended=6.0) == 3.0
    assert find_longest_gap([], begun=0.0, ended=4.0) == 4.0
