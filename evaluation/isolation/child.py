"""The process in which suites run, connected only to a sandbox database (`python -m evaluation.isolation.child`).

It reads one JSON object per line from standard input: first the options, then each unit to run with any live data
collected for it. It writes one JSON object per line: progress, each finished unit, and "ready" when it waits for the
next. It ends when its input ends or its parent process is gone.
"""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from typing import Any, TextIO

import django

LOCK = 0x45524C  # advisory lock: one evaluation at a time


def main(stdin: TextIO, stdout: TextIO) -> int:
    """Run units until the input ends; return the exit code."""
    # A parent that is killed tells its children nothing, so a thread watches it.
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    signal.signal(signal.SIGTERM, lambda number, frame: _end())
    # Imports of this app's models have to wait for it, so they stand inside functions.
    django.setup()
    from django.db import DatabaseError

    from evaluation.errors import EvaluationError

    lock = threading.Lock()

    def say(**event: Any) -> None:
        # Environments may report from several threads.
        with lock:
            stdout.write(json.dumps(event) + "\n")
            stdout.flush()

    try:
        _run(stdin, say)
    except EvaluationError as error:
        say(event="refused", kind=type(error).__name__, says=str(error))
        return 1
    except DatabaseError as error:
        # Only the first line: what follows may quote the statement and its values.
        say(event="refused", kind="", says=f"The sandbox database refused: {str(error).splitlines()[0]}")
        return 1
    return 0


def _run(stdin: TextIO, say: Any) -> None:
    from evaluation.isolation.sandbox import empty_sandbox, lock_sandbox, prepare_sandbox
    from evaluation.suites.base import Options
    from evaluation.suites.registry import get_suite
    from evaluation.suites.vector_cache import cache_vectors
    from memory.ids import repeat_ids

    job = json.loads(stdin.readline())
    options = replace(Options.from_json(job["options"]), journal=job.get("journal", ""))
    lock_sandbox(LOCK)
    say(event="progress", what="preparing the sandbox", done=0, total=1)
    prepare_sandbox()
    cache_vectors()
    say(event="ready")
    for line in stdin:
        task = json.loads(line)
        suite, unit = task["suite"], task["unit"]
        # Also before the unit: an earlier run may have been killed in the middle of one.
        empty_sandbox()
        # Ids decide between equals in rankings, so repeatable figures need repeatable ids.
        repeat_ids(f"{suite}:{unit}:{options.seed}")

        def progress(what: str, done: int, total: int, *, suite: str = suite) -> None:
            say(event="progress", what=f"{suite}: {what}", done=done, total=total)

        result = get_suite(suite).run_unit(unit, replace(options, material=task.get("material")), progress)
        say(event="unit", suite=suite, unit=unit, result=result)
        empty_sandbox()
        say(event="ready")


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, so that a killed run does not keep the sandbox locked."""
    while os.getppid() == parent:
        time.sleep(0.5)
    _end()


def _end() -> None:
    """End at once, together with the agents that this process started."""
    if command := sys.modules.get("evaluation.environments.command"):
        command.stop_commands()
    # At once: the other threads may be in the middle of a call and would keep the process alive.
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.stdin, sys.stdout))
