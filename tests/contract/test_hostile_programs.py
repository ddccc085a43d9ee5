"""No program leaves the sandbox. `python -m bench.sandbox` runs them as root, as another user and filtered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.cpython import RUNTIMES
from tests.runtime.hostile_host import Attempt, HostileHost
from tests.runtime.hostile_programs import PROGRAMS, HostileProgram

ROOT = Path(__file__).resolve().parents[2]
AS = ["--user", "nobody"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module", params=RUNTIMES)
def attempts(request: pytest.FixtureRequest) -> list[Attempt]:
    done = _run("--filter", "--runtime", request.param, *AS)
    if done.returncode and not done.stdout:
        # A machine may keep its interpreter from other users. Root reaches more than they do, if anything is open.
        done = _run("--filter", "--runtime", request.param)
    assert done.returncode == 0
    return [Attempt(**json.loads(line)) for line in done.stdout.splitlines()]


def _run(*options: str) -> subprocess.CompletedProcess[bytes]:
    """Try all programs in a process whose errors pytest shows."""
    arguments = [sys.executable, "-m", "tests.runtime.hostile_host", *options]
    return subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, check=False, timeout=120)


def test_no_program_reaches_anything(attempts: list[Attempt]) -> None:
    assert [each for each in attempts if each.reached] == []
    assert {each.name for each in attempts} >= {program.name for program in PROGRAMS}


def test_program_that_exhausts_is_stopped(attempts: list[Attempt]) -> None:
    ended = {each.name: each.status for each in attempts}

    assert {ended[name] for name in ("endless_loop", "doubling", "power", "recursion", "swallows_the_limit")} == {
        "stopped"
    }


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_program_that_reaches_something_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    monkeypatch.setenv("ERL_HOSTILE_SECRET", "")
    host = HostileHost(tmp_path, runtime)
    leak = HostileProgram("leak", "sibling", f"def tool():\n    raise ValueError({host.secret!r})\n")

    assert host.attempt(leak).reached == "secret"
