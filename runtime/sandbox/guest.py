"""Run one tool inside the sandbox of the operating system, and talk to ERL through one pipe each way.

ERL reads this file and hands it to CPython; it is never imported. Each line on the pipes is one JSON object. Nothing
here is a boundary but the filter that this process gives itself before it reads the tool: the tool can do all that
this process can do then, and what it writes is not trusted.
"""

import _thread
import builtins
import ctypes
import datetime
import io
import json
import os
import random
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

NAME = "<tool>"
MAX_PRINTED = 10_000  # characters in one line on the pipe
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2


class Pipe:
    def __init__(self) -> None:
        self._in, self._out = os.fdopen(os.dup(0), encoding="utf-8"), os.dup(1)
        # What a library writes past sys.stdout must not get into the pipe.
        os.dup2(2, 1)
        self._lock = _thread.allocate_lock()

    def send(self, **said: Any) -> None:
        data = (json.dumps(said, ensure_ascii=False, allow_nan=False) + "\n").encode()
        # Threads of the tool may print at the same time.
        with self._lock:
            while data:
                data = data[os.write(self._out, data) :]

    def read(self) -> Any:
        line = self._in.readline()
        if not line:
            os._exit(0)
        return json.loads(line)


def refuse_other_system_calls(allowed: bytes) -> None:
    """Install a seccomp filter, which nothing in this process can take away again."""
    program = ctypes.create_string_buffer(allowed, len(allowed))
    # This is the kernel's struct sock_fprog: the number of steps, padding, and a pointer to them.
    listed = struct.pack("HxxxxxxP", len(allowed) // 8, ctypes.addressof(program))
    if ctypes.CDLL(None).prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, listed):
        os._exit(1)


class Printed(io.TextIOBase):
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        shown = text.encode(errors="replace").decode()
        for start in range(0, len(shown), MAX_PRINTED):
            self._pipe.send(printed=shown[start : start + MAX_PRINTED])
        return len(text)


def stop_the_clock(moment: datetime.datetime) -> None:
    seconds = moment.timestamp()

    class StoppedDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(seconds, tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(seconds)

    class StoppedDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(seconds)

    stopped = {"time": lambda: seconds, "time_ns": lambda: int(seconds * 1e9), "sleep": lambda _: None}
    vars(datetime).update(datetime=StoppedDatetime, date=StoppedDate)
    vars(time).update(stopped)


def seed_random_numbers(seed: str) -> None:
    class SeededRandom(random.Random):
        def __init__(self, x: Any = seed) -> None:
            super().__init__(x)

    random.seed(seed)
    vars(random).update(Random=SeededRandom)


def make_host_function(pipe: Pipe, name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        pipe.send(call=name, args=args, kwargs=kwargs)
        answer = pipe.read()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    call.__name__ = name
    return call


def find_line(error: BaseException) -> int | None:
    line, frame = getattr(error, "lineno", None), error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == NAME:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def main() -> None:
    pipe = Pipe()
    refuse_other_system_calls(bytes.fromhex(sys.argv.pop()))
    pipe.send(ready=True)
    asked = pipe.read()
    sys.stdout = sys.stderr = Printed(pipe)
    stop_the_clock(datetime.datetime.fromisoformat(asked["frozen_at"]))
    seed_random_numbers(asked["seed"])
    sys.setrecursionlimit(asked["recursion"])
    space: dict[str, Any] = {"__name__": "tool", "__builtins__": builtins}
    space.update((name, make_host_function(pipe, name)) for name in asked["uses"])
    try:
        exec(compile(asked["source"], NAME, "exec"), space)  # noqa: S102 - this is the sandbox
        pipe.send(returned=space[asked["function"]](**asked["arguments"]))
    except BaseException as error:
        # Half of a surrogate pair could not be sent.
        message = str(error)[:2000].encode(errors="replace").decode()
        pipe.send(raised=type(error).__name__, message=message, line=find_line(error))
    # At once, without waiting for threads that the tool left behind.
    os._exit(0)


main()
