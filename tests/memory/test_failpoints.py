"""Failpoints: nothing without the setting, and what it names with it."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from memory import failpoints
from memory.failpoints import NAMES, Failpoint, FailpointError, arm_failpoints, armed, failpoint
from tests.stack import PACKAGES, ROOT

_CALL = re.compile(r"failpoint\(\"([a-z_.]+)\"\)")


@pytest.fixture(autouse=True)
def _disarmed() -> Any:
    yield
    failpoints._actions.clear()


def test_every_point_is_named_once_and_in_one_place() -> None:
    modules = [path for app in PACKAGES for path in (ROOT / app).rglob("*.py")]
    found = [name for path in modules for name in _CALL.findall(path.read_text(encoding="utf-8"))]

    assert sorted(found) == sorted(NAMES)


def test_nothing_happens_without_the_setting() -> None:
    assert failpoints._actions == {}
    failpoint("reflection.asked")


def test_error_is_raised_at_the_named_point_alone() -> None:
    arm_failpoints(["reflection.asked=error@2"])

    failpoint("job.claimed")
    failpoint("reflection.asked")
    with pytest.raises(FailpointError):
        failpoint("reflection.asked")
    failpoint("reflection.asked")


def test_chance_is_kept_to_roughly() -> None:
    action = Failpoint(kind="error", chance=0.25)
    hit = 0
    for _ in range(1000):
        try:
            action()
        except FailpointError:
            hit += 1

    assert 150 < hit < 350


def test_function_of_a_test_runs_while_the_block_lasts() -> None:
    reached: list[str] = []
    with armed("erasure.before_commit", lambda: reached.append("x")):
        failpoint("erasure.before_commit")
    failpoint("erasure.before_commit")

    assert reached == ["x"]


@pytest.mark.parametrize("spelling", ["reflection.asked", "nowhere=crash", "reflection.asked=explode", "=crash"])
def test_wrong_spelling_is_refused(spelling: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="the names are"):
        arm_failpoints([spelling])


def test_crash_is_a_death_by_signal_nine_of_a_process_that_was_asked_to() -> None:
    code = "import memory.failpoints as f; f.arm_failpoints(['periodic.work=crash']); f.failpoint('periodic.work')"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ, check=False)

    assert ended.returncode == -9
