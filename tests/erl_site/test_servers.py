"""The servers of the tests: nothing of a killed run remains."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from erl_site.embedded import postgres, processes, valkey
from tests.servers import PREFIX, discard_dead_homes
from tests.stack import ROOT

KILLED_RUN = """
import fcntl, os, subprocess, sys
from pathlib import Path
from erl_site.embedded import postgres, valkey
home = Path(sys.argv[1])
alive = (home / "alive.lock").open("w")
fcntl.flock(alive, fcntl.LOCK_EX)
postgres.ensure(home / "postgres", durable=False)
valkey.ensure(home / "valkey", durable=False)
worker = [sys.executable, "-c", "import time; time.sleep(300)"]
print(subprocess.Popen(worker, env=os.environ | {"ERL_HOME": str(home)}, stdout=subprocess.DEVNULL).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.nightly
def test_home_of_a_killed_run_is_discarded_with_its_processes() -> None:
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}dead-"))
    command = [sys.executable, "-c", KILLED_RUN, str(home)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        worker = int(run.stdout.readline())
        discard_dead_homes()
        assert home.exists(), "the run still lives"
        run.kill()
    assert valkey.is_running(home / "valkey")

    discard_dead_homes()

    assert not home.exists()
    assert not postgres.is_running(home / "postgres")
    assert not valkey.is_running(home / "valkey")
    assert not processes.runs(worker)
