"""Run a tool in CPython, kept apart by the operating system: Landlock and seccomp, by sandlock and a filter of ours.

Each call is a process of its own. It may read the standard library and system libraries, and nothing else; it has an
empty environment, no network, no other processes, no files to write, and the few system calls that it needs
(`system_calls`). It talks through one pipe each way.
"""

import json
import os
import select
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

from runtime.sandbox.answers import Host, SandboxConversation, cut
from runtime.sandbox.calls import (
    BUSY,
    HostCall,
    SandboxAnswer,
    SandboxCall,
    SandboxError,
    SandboxLimits,
    SandboxStatus,
    ToolFault,
    ToolOutcome,
)
from runtime.sandbox.json_values import NotJson, to_json_value
from runtime.sandbox.system_calls import write_filter

MAX_PROCESSES = 4
WAIT_SECONDS = START_SECONDS = 30.0
INTERPRETER_BYTES = 32 * 1024 * 1024  # what CPython needs before a tool has done anything
GUEST = Path(__file__).with_name("guest.py").read_text(encoding="utf-8")
INTERPRETER = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
READABLE = [
    sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}),
    sysconfig.get_config_var("LIBDIR") or "/usr/lib",
    "/usr/lib",
    "/lib",
    "/lib64",
]
ALLOWED = write_filter(os.uname().machine)
_free = threading.BoundedSemaphore(MAX_PROCESSES)


def run_in_cpython(call: SandboxCall, host: Host, *, journal: Sequence[SandboxAnswer] = ()) -> ToolOutcome:
    """Call a function of a source in a process of its own; `run_tool` says how."""
    with _start(call) as guest:
        conversation = SandboxConversation(call, host, journal)
        try:
            return _hold(call, host, conversation, guest)
        except NotJson as error:
            fault = ToolFault(kind="TypeError", message=f"{call.function} cannot be answered: {error}.")
            return conversation.end(SandboxStatus.RAISED, fault=fault)
        except _TimeIsUp:
            message = f"The tool ran for more than {call.limits.seconds:g} seconds."
            return conversation.end(
                SandboxStatus.STOPPED,
                fault=ToolFault(kind="TimeoutError", message=message),
                duration_ms=1000 * call.limits.seconds,
            )
        except _Ended:
            return conversation.end(SandboxStatus.STOPPED, fault=guest.find_end(call.limits))


def _hold(call: SandboxCall, host: Host, conversation: SandboxConversation, guest: "_Guest") -> ToolOutcome:
    chars, left, spent = call.limits.output_chars, call.limits.seconds, 0.0
    answer: dict[str, Any] = _describe(call, host)
    while True:
        # Only the tool's own time counts: the clock stops while the host answers.
        began = time.perf_counter()
        guest.send(answer, seconds=left - spent)
        message = guest.read(seconds=left - spent)
        while "printed" in message:
            conversation.take_output(str(message["printed"]))
            message = guest.read(seconds=left - spent - (time.perf_counter() - began))
        spent += time.perf_counter() - began
        members = {"duration_ms": round(1000 * spent, 3)}
        if "returned" in message:
            return conversation.end(
                SandboxStatus.RETURNED, value=to_json_value(message["returned"], chars=chars), **members
            )
        if "raised" in message:
            fault = _read_fault(message)
            is_limit = fault.kind in ("MemoryError", "RecursionError")
            return conversation.end(SandboxStatus.STOPPED if is_limit else SandboxStatus.RAISED, fault=fault, **members)
        # A call is made of the tool's values, so it has the limits of a result.
        name, args, kwargs = to_json_value([message.get(key) for key in ("call", "args", "kwargs")], chars=chars)
        # The tool can write to the pipe by itself, so the form is checked.
        if not (isinstance(name, str) and name in host and isinstance(args, list) and isinstance(kwargs, dict)):
            raise _Ended
        asked = HostCall(name=name, args=args, kwargs=kwargs)
        answered = conversation.answer(asked)
        if answered is None:
            return conversation.end(SandboxStatus.SUSPENDED, pending=asked)
        answer = {"error": answered.error} if answered.error else {"value": answered.value}


class _TimeIsUp(Exception):
    """The tool has used up its time."""


class _Ended(Exception):
    """The process has ended, or says what no tool says, before the tool returned."""


class _Guest:
    """The process of a call, with a line of JSON each way. Nothing that it says is trusted."""

    def __init__(self, process: Any, limits: SandboxLimits) -> None:
        self._process = process
        self._most_bytes = 6 * limits.output_chars + 10_000  # a character may be escaped
        self._rest = b""
        for pipe in (process.stdin, process.stdout):
            # A guest that neither reads nor writes must not hold up this thread; `_wait` keeps the time.
            os.set_blocking(pipe.fileno(), False)

    def send(self, said: dict[str, Any], *, seconds: float) -> None:
        ends_at, data = time.monotonic() + seconds, (json.dumps(said) + "\n").encode()
        while data:
            _wait(self._process.stdin.fileno(), select.POLLOUT, ends_at)
            try:
                data = data[os.write(self._process.stdin.fileno(), data) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise _Ended from None

    def read(self, *, seconds: float) -> dict[str, Any]:
        ends_at = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if len(self._rest) > self._most_bytes:
                raise NotJson(f"the value is larger than {self._most_bytes:,} bytes")
            _wait(self._process.stdout.fileno(), select.POLLIN, ends_at)
            piece = os.read(self._process.stdout.fileno(), 65_536)
            if not piece:
                raise _Ended
            self._rest += piece
        # A line that came too late does not count.
        if time.monotonic() > ends_at:
            raise _TimeIsUp
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise NotJson("it is no JSON, or nested too deeply") from None
        if not isinstance(message, dict):
            raise _Ended
        return message

    def find_end(self, limits: SandboxLimits) -> ToolFault:
        """Say why the process has ended before the tool returned."""
        result = self._process.wait(timeout=1.0)
        # A negative code means that it did not end by itself.
        if result.success or result.exit_code >= 0:
            return ToolFault(kind="SystemExit", message="The tool ended its process.")
        return ToolFault(
            kind="MemoryError",
            message=f"The tool was stopped: it needed more than {limits.memory_bytes:,} bytes, or crashed.",
        )


@contextmanager
def _start(call: SandboxCall) -> Iterator[_Guest]:
    """Give the block a process that is ready, and end it afterwards.

    Raises:
        SandboxError: this host has no sandbox for CPython, or it does not start.
    """
    if find_spec("sandlock") is None:
        raise SandboxError("Tools of the runtime python need sandlock: run uv sync --group sandlock.")
    if not ALLOWED:
        raise SandboxError(f"Tools of the runtime python run on x86_64 and aarch64, not on {os.uname().machine}.")
    import sandlock

    if not _free.acquire(timeout=WAIT_SECONDS):
        raise SandboxError(BUSY)
    try:
        sandbox = sandlock.Sandbox(
            fs_readable=[INTERPRETER, *(path for path in READABLE if os.access(path, os.R_OK))],
            max_memory=call.limits.memory_bytes + INTERPRETER_BYTES,
            max_processes=1,
            max_open_files=32,
            no_coredump=True,
            clean_env=True,
            # Seven bytes fit into a 64-bit number, signed or not.
            random_seed=int.from_bytes(call.seed.encode()[:7].rjust(7, b"\x00")),
            cwd="/",
            name=uuid4().hex,
        )
        piped, null = sandlock.StdioMode.PIPED, sandlock.StdioMode.NULL
        try:
            process = sandbox.popen(
                # Isolated and without site-packages: only the standard library can be imported.
                [INTERPRETER, "-I", "-S", "-c", GUEST, ALLOWED.hex()],
                stdin=piped,
                stdout=piped,
                stderr=null,
            )
        except RuntimeError as error:
            reason = "sandlock starts no process on this host; manage.py check --running says what it needs"
            raise SandboxError(f"The sandbox cannot be started: {reason}.") from error
        with process:
            guest = _Guest(process, call.limits)
            try:
                guest.read(seconds=START_SECONDS)
            except (_TimeIsUp, _Ended, NotJson) as error:
                raise SandboxError("CPython did not start in the sandbox.") from error
            yield guest
            with suppress(OSError):
                process.kill()
    finally:
        _free.release()


def _wait(descriptor: int, for_what: int, ends_at: float) -> None:
    poll = select.poll()
    poll.register(descriptor, for_what)
    if not poll.poll(max(0.0, 1000 * (ends_at - time.monotonic()))):
        raise _TimeIsUp


def _describe(call: SandboxCall, host: Host) -> dict[str, Any]:
    return {
        "source": call.source,
        "function": call.function,
        "arguments": dict(call.arguments),
        "frozen_at": call.frozen_at.isoformat(),
        "seed": call.seed,
        "recursion": call.limits.recursion,
        "uses": list(host),
    }


def _read_fault(said: dict[str, Any]) -> ToolFault:
    line = said.get("line")
    return ToolFault(
        kind=cut(str(said["raised"]))[:100],
        message=cut(str(said.get("message", ""))),
        line=line if isinstance(line, int) else None,
    )
