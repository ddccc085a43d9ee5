"""Start the sandbox processes, hand each one unit after another, and stop them."""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Thread
from typing import Any

from django.conf import settings

from evaluation import errors
from evaluation.errors import EvaluationError, ProcessEnded
from evaluation.isolation.sandbox import create_sandbox, sandbox_environment
from evaluation.models import EvaluationRun
from evaluation.suites.base import Options
from evaluation.suites.registry import get_suite, needs_provider

PROCESSES = 2
END_SECONDS = 5.0  # for a process to end when it is told to
Unit = tuple[str, str]  # name of the suite, name of the unit


def run_children(run: EvaluationRun, options: Options, todo: Sequence[Unit]) -> Iterator[dict[str, Any]]:
    """Yield progress and results while the processes run the units; closing the iterator stops them.

    Raises:
        EvaluationError: a process refuses a unit, or ends before it is done.
    """
    waiting = deque(todo)
    heavy = sum(get_suite(suite).is_heavy for suite, _ in todo)
    # The units of light suites share one process; each heavy one may have its own.
    count = max(1, min(PROCESSES, os.cpu_count() or 1, heavy + (heavy < len(todo))))
    provider = needs_provider(options)
    journal = settings.ERL_HOME / "evaluations" / f"{run.pk}.jsonl"
    events: SimpleQueue[tuple[_Child, dict[str, Any]]] = SimpleQueue()
    with ExitStack() as stack:
        urls = [create_sandbox(number) for number in range(1, count + 1)]
        children = [_Child(sandbox_environment(url, provider=provider), events) for url in urls]
        for child in children:
            stack.callback(child.stop)
            child.send({"options": options.as_json(), "journal": str(journal) if provider else ""})
        working = len(children)
        while working:
            child, event = events.get()
            match event["event"]:
                case "ready" if waiting:
                    suite, unit = waiting.popleft()
                    material = get_suite(suite).collect(unit, options)
                    child.send({"suite": suite, "unit": unit, "material": material})
                case "ready":
                    child.finish()
                # The child names the class of its error, so that the caller can tell refusals apart.
                case "refused":
                    raise getattr(errors, event["kind"], EvaluationError)(event["says"])
                case "ended" if event["code"] or not child.is_finished:
                    raise ProcessEnded(
                        f"The evaluating process ended with exit code {event['code']} before it was done."
                    )
                case "ended":
                    working -= 1
                case _:
                    yield event


class _Child:
    """One process. Its messages are put into `events`, then "ended" with its exit code."""

    def __init__(self, environment: dict[str, str], events: "SimpleQueue[tuple[_Child, dict[str, Any]]]") -> None:
        self.is_finished = False
        self._events = events
        self._process = subprocess.Popen(
            [sys.executable, "-m", "evaluation.isolation.child"],
            cwd=settings.BASE_DIR,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Ignored if the process is gone: its "ended" event reports that."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:
            return

    def finish(self) -> None:
        """Close its input, so that it ends."""
        assert self._process.stdin is not None
        self.is_finished = True
        self._process.stdin.close()

    def stop(self) -> None:
        """End it, with the agents it started, and wait until it is gone."""
        # SIGTERM lets the child stop the agents that it started.
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Joined before the pipes are closed, as it still reads from one of them.
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put((self, json.loads(line)))
        self._events.put((self, {"event": "ended", "code": self._process.wait()}))
