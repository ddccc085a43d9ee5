"""What is called in a fork gives its result, its exception, or neither."""

import multiprocessing
import os
import signal
import subprocess
import sys
from typing import NoReturn

import pytest

from erl_site.embedded.forks import ForkEnded, call_in_fork
from tests.stack import ROOT


def refuse() -> NoReturn:
    raise ValueError("no")


def test_call_in_fork_returns_the_result_of_another_process() -> None:
    result = call_in_fork(lambda: [os.getppid(), os.getpid()], expected=(), poll=lambda: None)

    assert result[0] == os.getpid() != result[1]


def test_call_in_fork_raises_what_was_expected() -> None:
    with pytest.raises(ValueError, match="no"):
        call_in_fork(refuse, expected=(ValueError,), poll=lambda: None)


def test_call_in_fork_of_a_killed_process_says_so() -> None:
    with pytest.raises(ForkEnded):
        call_in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL), expected=(), poll=lambda: None)


# At the first fork alone: what is registered stays, and Python ignores what a handler raises there. In a process of its
# own, as with other threads the signal may come to one of them.
INTERRUPTED = """
import os, signal
from erl_site.embedded.forks import call_in_fork
here, interrupts = os.getpid(), [signal.SIGINT]
def interrupt():
    while interrupts:
        os.kill(here, interrupts.pop())
os.register_at_fork(after_in_parent=interrupt)
try:
    call_in_fork(signal.pause, expected=(), poll=lambda: None)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupt_during_a_fork_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout == "interrupted\n", done.stderr


def test_call_in_fork_ends_the_fork_when_interrupted() -> None:
    def interrupt() -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_in_fork(signal.pause, expected=(), poll=interrupt)

    assert multiprocessing.active_children() == []
