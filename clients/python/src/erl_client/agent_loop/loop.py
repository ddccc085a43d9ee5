"""Runs an agent's command, each time with fresh context and the newest lessons, until a goal is reached.

Everything is in one folder: what the loop is, and a folder of each attempt at an iteration with the agent's lessons and
output. A loop that was killed goes on where it was. What it leaves half-finished is recorded as such and done again.
"""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from erl_client.agent_loop.processes import Ended, run_command
from erl_client.agent_loop.record import CANNOT_RUN, Attempt, Plan, describe_attempt, now, say_end
from erl_client.api import ERLError
from erl_client.client import ERL
from erl_client.lesson_files.blocks import replace_file
from erl_client.plain import as_text, cut
from erl_client.runs import Run
from erl_client.spool import lock_file

MAX_VARIABLE_CHARS = 30_000  # Linux takes 131,072 bytes

_ATTEMPT = re.compile(r"(\d{4})\.(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long a loop goes on."""

    max_iterations: int
    timeout_seconds: float


def run_loop(erl: ERL, plan: Plan, limits: Limits, *, folder: Path, say: Callable[[str], None]) -> int:
    """Run a loop, or go on with it, and return the exit code: 0 where the goal is reached, 1 where it is not.

    Without a check all iterations are done, and the exit code is 0. It is 128 and the signal where one ended the loop.

    Raises:
        ERLError: another process runs a loop in the folder, it holds another loop, or the command cannot be found.
    """
    if sys.platform == "win32":
        raise ERLError("`erl loop` needs process groups, which Windows does not have. Run it in WSL.")
    if shutil.which(plan.command[0]) is None:
        raise ERLError(f"The command {plan.command[0]} was not found.")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_file(folder / "lock") as mine:
        if not mine:
            raise ERLError(f"Another loop is running in {folder}. Wait for it, or name another folder with --state.")
        return _Loop(erl, plan, limits, folder.absolute(), say).run()


class _Loop:
    def __init__(self, erl: ERL, plan: Plan, limits: Limits, folder: Path, say: Callable[[str], None]) -> None:
        self._erl = erl
        self._plan = plan
        self._limits = limits
        self._folder = folder
        self._say = say
        self._stop = Event()
        self._id = self._open()

    def run(self) -> int:
        attempts = self._read_attempts()
        for attempt in attempts:
            if attempt.status == "running":  # the loop was killed
                self._say(f"Iteration {attempt.iteration} was cut off and is repeated.")
                self._interrupt(attempt, "The loop was killed.")
            elif not attempt.recorded:
                self._record(attempt)
        done = max((attempt.iteration for attempt in attempts if attempt.status == "done"), default=0)
        reached = any(attempt.reached for attempt in attempts)
        if done and (reached or done >= self._limits.max_iterations):
            self._say(f"This loop already ended with iteration {done}. Remove {self._folder} to start over.")
        with _signals(self._stop) as got:
            while not reached and done < self._limits.max_iterations:
                number = sum(attempt.iteration == done + 1 for attempt in attempts) + 1
                attempt = Attempt(loop=self._id, iteration=done + 1, number=number, started_at=now())
                attempts.append(attempt)
                self._attempt(attempt)
                if attempt.status == "interrupted":
                    self._say(f"Stopped. Run the same command again to repeat iteration {attempt.iteration}.")
                    return 128 + got[0]
                reached, done = bool(attempt.reached), attempt.iteration
        if not self._plan.check:
            self._say(f"Iteration {done} was the last. Without --check, nothing says whether the goal was reached.")
            return 0
        self._say(f"The goal was {'reached in' if reached else 'not reached by'} iteration {done}.")
        return 0 if reached else 1

    def _open(self) -> str:
        """Return the id of the loop in the folder, which is made where there is none."""
        file = self._folder / "loop.json"
        plan = self._plan.identity()
        if not file.exists():
            replace_file(self._folder / ".gitignore", b"*\n")
            replace_file(file, _as_json({"id": str(uuid4()), **plan}))
        stored = json.loads(file.read_bytes())
        if differing := [name for name in plan if stored.get(name) != plan[name]]:
            raise ERLError(
                f"{self._folder} holds a loop with a different {', '.join(differing)}. Name another folder with "
                "--state, or remove this one."
            )
        return str(stored["id"])

    def _read_attempts(self) -> list[Attempt]:
        names = sorted(path.name for path in self._folder.iterdir() if _ATTEMPT.fullmatch(path.name))
        files = [self._folder / name / "attempt.json" for name in names]
        attempts = [Attempt(**json.loads(file.read_bytes())) for file in files if file.exists()]
        return sorted(attempts, key=lambda attempt: (attempt.iteration, attempt.number))

    def _attempt(self, attempt: Attempt) -> None:
        """Let the agent work once, ask the check, and record what came of it."""
        place = self._place(attempt)
        place.mkdir(exist_ok=True)
        lessons = Run(self._plan.goal, family=self._plan.family)
        self._erl._fetch(lessons)
        attempt.retrieval_id = lessons.retrieval_id
        (place / "lessons.md").write_text(as_text(lessons.context), encoding="utf-8")
        self._write(attempt)
        environment = self._environment(attempt, lessons.context)
        given = "with lessons" if lessons.context else "without lessons"
        self._say(f"Iteration {attempt.iteration} of {self._limits.max_iterations}, {given}.")
        ended = self._run(self._plan.command, environment, place / "agent")
        if ended.why == "stop":
            self._interrupt(attempt, "The loop was stopped.")
            return
        checked = self._check(attempt, environment, place)
        if checked and checked.why == "stop":
            self._interrupt(attempt, "The loop was stopped.")
            return
        said = f"the check with {say_end(checked)}" if checked else ""
        self._say(", ".join(filter(None, [f"The agent ended with {say_end(ended)}", said])) + ".")
        attempt.reached = None if checked is None else checked.exit_code == 0
        error = "" if ended.exit_code == 0 else f"It ended with {say_end(ended)}."
        run = describe_attempt(self._plan, attempt, place=place, error=error, checked=checked)
        attempt.status = "done"
        self._finish(attempt, run)
        if checked and checked.exit_code in CANNOT_RUN:
            raise ERLError(f"The check cannot be run: {self._plan.check}")

    def _check(self, attempt: Attempt, environment: Mapping[str, str], place: Path) -> Ended | None:
        if not self._plan.check:
            return None
        return self._run(["/bin/sh", "-c", self._plan.check], environment, place / "check")

    def _run(self, command: list[str], environment: Mapping[str, str], output: Path) -> Ended:
        return run_command(
            command,
            environment=environment,
            output=output,
            timeout_seconds=self._limits.timeout_seconds,
            stop=self._stop,
        )

    def _environment(self, attempt: Attempt, lessons: str) -> dict[str, str]:
        said = {
            "ERL_GOAL": self._plan.goal,
            "ERL_ITERATION": str(attempt.iteration),
            "ERL_LESSONS": cut(as_text(lessons), MAX_VARIABLE_CHARS),
            "ERL_LESSONS_FILE": str(self._place(attempt) / "lessons.md"),
        }
        return os.environ | said

    def _interrupt(self, attempt: Attempt, why: str) -> None:
        attempt.status = "interrupted"
        self._finish(attempt, describe_attempt(self._plan, attempt, place=self._place(attempt), error=why))

    def _finish(self, attempt: Attempt, run: dict[str, Any]) -> None:
        """Write down how an attempt ended, then let it be recorded."""
        attempt.run = run
        self._write(attempt)
        self._record(attempt)

    def _record(self, attempt: Attempt) -> None:
        if not self._erl.destination.api_key:
            return
        self._erl._outbox.put(attempt.run, key=str(uuid5(NAMESPACE_URL, attempt.external_id)))
        attempt.recorded = True
        self._write(attempt)

    def _place(self, attempt: Attempt) -> Path:
        return self._folder / attempt.name

    def _write(self, attempt: Attempt) -> None:
        replace_file(self._place(attempt) / "attempt.json", _as_json(asdict(attempt)))


@contextmanager
def _signals(stop: Event) -> Iterator[list[int]]:
    """Ask the loop to stop where the user or the system wants it; the list gets the signal."""
    got: list[int] = []

    def ask(number: int, frame: object) -> None:
        got.append(number)
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()
