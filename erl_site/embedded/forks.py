"""Forks of this process, which start with everything it has loaded and share its memory.

Loading the product takes seconds and 150 MB, in each process that does it by itself. A process that forks must have
neither threads nor connections: the fork would lack the former, and both would talk over the latter.
"""

import gc
import os
import runpy
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

# The default of macOS and of later Pythons starts from nothing.
_context = get_context("fork")
LOOK_SECONDS = 0.1
Result = TypeVar("Result")
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ForkEnded(Exception):
    """A fork was killed, or failed with an error that its output shows."""


def freeze() -> None:
    """Keep garbage collection in forks from writing to existing objects, which would copy their pages."""
    gc.collect()
    gc.freeze()


def fork_program(command: tuple[str, ...], output: Path) -> ForkProcess:
    """Run a module with arguments, as `python -m` would, in a session of its own that writes to a file."""
    output.touch()
    process = _context.Process(target=_run_program, args=(command, output))
    try:
        _start(process)
    except BaseException:
        process.terminate()
        raise
    return process


def call_in_fork(
    function: Callable[[], Result], *, expected: tuple[type[Exception], ...], poll: Callable[[], object]
) -> Result:
    """Call a function that opens connections, or needs much memory for a moment, and return its result.

    Args:
        expected: exceptions that are raised here too.
        poll: is called now and then while the function runs.

    Raises:
        ForkEnded: there is no result.
    """
    receiver, sender = _context.Pipe(duplex=False)
    process = _context.Process(target=_send_result, args=(function, expected, sender))
    try:
        _start(process)
        sender.close()  # so that the end of the fork can be seen
        while not receiver.poll(LOOK_SECONDS):
            poll()
        result = receiver.recv()
    except EOFError:
        raise ForkEnded("A part of this command stopped too early. See the messages above, or run it again.") from None
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join()
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


def _start(process: ForkProcess) -> None:
    # What a signal's handler raises in a function that Python calls at a fork is lost: Ctrl-C would do nothing
    signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)


def _send_result(function: Callable[[], object], expected: tuple[type[Exception], ...], sender: Connection) -> None:
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    try:
        sender.send(function())
    except expected as error:
        sender.send(error)
    except KeyboardInterrupt:
        return  # the process that forked says so


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # Ctrl-C reaches both processes, and the other one passes it on as well.
    for other in _INTERRUPTS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run_program(command: tuple[str, ...], output: Path) -> None:
    # A session of its own: Ctrl-C does not reach it, and its group can be killed together.
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    with Path(os.devnull).open("rb") as nothing, output.open("ab") as stream:
        os.dup2(nothing.fileno(), 0)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.argv = [*command]
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
