"""Your agent as a command: it reads a task and lessons as JSON and writes a run as JSON, one process for each try."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import Field

from evaluation.environments.base import Split, Task, TryResult
from evaluation.errors import EvaluationError
from memory.api.input import Input, Name, Text
from memory.errors import InvalidInput, InvalidSteps
from memory.intake.serializers import TrajectoryInput
from memory.limits import MAX_REQUEST_BYTES, MAX_TASK_CHARS
from memory.redaction import redact
from memory.runs.models import Trajectory
from memory.runs.step_formats import read_steps
from memory.runs.tools import read_tools
from memory.strict_json import InvalidJson, parse_json

MAX_SAID_CHARS = 300  # of what a failed command wrote last
_STDERR_TAIL_BYTES = 4096
_FOREIGN = ("retrieval_id", "parent_id", "open", "reflect", "external_id")  # they would point out of the sandbox
_OURS = ("ERL_", "CELERY_", "DATABASE_", "DJANGO_SETTINGS_MODULE")
_running: set[subprocess.Popen[bytes]] = set()
_stopping = threading.Event()


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCommand:
    """How to start the agent: the words of the command, the folder it runs in, and how long one try may take."""

    words: tuple[str, ...]
    folder: Path
    timeout_seconds: float


class TaskLine(Input):
    """A line of the file of tasks."""

    id: Annotated[Text, Field(max_length=200)]
    task: Annotated[Text, Field(max_length=MAX_TASK_CHARS)]
    family: Name = ""
    split: Literal["source", "test"] | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class CommandAgent:
    """An environment whose tasks are the lines of a file and whose agent is a command."""

    name = "command"

    def __init__(self, command: AgentCommand, *, tasks: Path) -> None:
        self._command = command
        self._lines = read_tasks(tasks)
        self._data = {line.id: line.data for line in self._lines}

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        """Return the tasks of a split. Where the file names no splits, half of the tasks, drawn by the seed, teach."""
        lines = self._lines
        if lines[0].split is None:
            drawn = list(lines)
            # The split depends on the seed alone, so both halves can be drawn apart.
            random.Random(f"split:{seed}").shuffle(drawn)  # noqa: S311 - repeatable by design
            half = len(drawn) // 2
            lines = drawn[:half] if split == "source" else drawn[half:]
        else:
            lines = [line for line in lines if line.split == split]
        return [Task(id=line.id, text=line.task, family=line.family) for line in lines]

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        """Run the command once. A try that gives no valid run is not solved, and `error` says why."""
        asked = {"id": task.id, "task": task.text, "family": task.family, "lessons": lessons, "trial": trial + 1}
        try:
            written = _run(self._command, json.dumps(asked | {"data": self._data[task.id]}).encode())
            return _read_run(written, task)
        except _Unusable as error:
            return TryResult(success=False, error=redact(str(error)).value)


class _Unusable(Exception):
    """The command gave no run; the message says why."""


def read_tasks(path: Path) -> list[TaskLine]:
    """Read a file of tasks, one JSON object a line.

    Raises:
        EvaluationError: it cannot be read, a line is wrong, or only some lines name a split.
    """
    lines: list[TaskLine] = []
    try:
        rows = path.read_bytes().splitlines()
    except OSError as error:
        raise EvaluationError(f"--tasks {path} cannot be read: {error.strerror}.") from error
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            document = parse_json(row)
            lines.append(TaskLine.from_body(document if isinstance(document, dict) else {}))
        except (InvalidJson, InvalidInput) as error:
            raise EvaluationError(f"--tasks {path}, line {number}: {error}") from error
    if len({line.id for line in lines}) < len(lines):
        raise EvaluationError(f"--tasks {path}: two lines have the same id. Give each task an id of its own.")
    if len(lines) < 2:
        raise EvaluationError(f"--tasks {path} has {len(lines)} tasks. One is needed to learn from and one to test on.")
    if len({line.split is None for line in lines}) > 1:
        raise EvaluationError(f"--tasks {path}: give every line a split, source or test, or none of them.")
    return lines


def read_command(text: str, *, folder: Path, timeout_seconds: float) -> AgentCommand:
    """Return the command of the agent.

    Raises:
        EvaluationError: it cannot be split into words, or there is no such program.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise EvaluationError(f"--agent {text!r} is not a command: {error}.") from error
    program = words[0] if words else ""
    executable = shutil.which(str(folder / program) if os.sep in program else program)
    if not executable:
        raise EvaluationError(f"--agent {text!r}: there is no program {program!r}. Name one that can be started.")
    return AgentCommand(words=words, folder=folder, timeout_seconds=timeout_seconds)


def stop_commands() -> None:
    """Kill the commands that run at present, with what they started, and start no more."""
    _stopping.set()
    for process in list(_running):
        _kill(process)


def _run(command: AgentCommand, asked: bytes) -> bytes:
    """Return what the command wrote. Files, not pipes: a process it left behind cannot hold them open."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(asked)
        stdin.seek(0)
        if _stopping.is_set():
            raise _Unusable("the evaluation was stopped")
        try:
            process = subprocess.Popen(
                command.words,
                cwd=command.folder,
                env=_make_environment(command.folder),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                # A group of its own, so that the agent's own children can be killed with it.
                start_new_session=True,
            )
        except OSError as error:
            raise _Unusable(f"the command could not be started: {error.strerror}") from error
        _running.add(process)
        try:
            code = process.wait(command.timeout_seconds)
        except subprocess.TimeoutExpired:
            raise _Unusable(f"it took longer than {command.timeout_seconds:g} seconds and was stopped") from None
        finally:
            _kill(process)
            _running.discard(process)
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
            raise _Unusable(f"it ended with {how}" + _last_words(stderr))
        # Measured before it is read: an agent may write more than fits into memory.
        size = stdout.seek(0, os.SEEK_END)
        if size > MAX_REQUEST_BYTES:
            raise _Unusable(f"it wrote {size:,} bytes; a run may have {MAX_REQUEST_BYTES:,}")
        stdout.seek(0)
        written = stdout.read()
        if not written.strip():
            raise _Unusable("it wrote nothing to standard output" + _last_words(stderr))
        return written


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        # The whole group: what the agent started would otherwise go on working.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    # The last lines say what went wrong; the rest may be long.
    stderr.seek(max(0, size - _STDERR_TAIL_BYTES))
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1][:MAX_SAID_CHARS]}" if lines else ""


def _make_environment(folder: Path) -> dict[str, str]:
    """Return the caller's environment without what belongs to ERL: the agent is to have the lessons it is handed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    path = [entry for entry in kept.pop("PYTHONPATH", "").split(os.pathsep) if entry not in ("", str(folder))]
    return kept | ({"PYTHONPATH": os.pathsep.join(path)} if path else {})


def _read_run(written: bytes, task: Task) -> TryResult:
    """Return what the command wrote as a try: one run in the form of POST /trajectories, with its outcome."""
    try:
        document = parse_json(written)
        if not isinstance(document, Mapping):
            raise _Unusable("standard output is not one JSON object")
        # These would point into the live project from inside the sandbox.
        if foreign := [name for name in _FOREIGN if name in document]:
            raise _Unusable(f"leave out {', '.join(foreign)}: the run is recorded apart from your project")
        run = TrajectoryInput.from_body({"task": task.text, **document}).run()
        steps, _, _ = read_steps(run.get("steps", []))
        read_tools(run.get("tools"))
    except InvalidJson as error:
        raise _Unusable(f"standard output is not one JSON object: {error}") from error
    except (InvalidInput, InvalidSteps) as error:
        raise _Unusable(f"its run is not valid: {error}"[:MAX_SAID_CHARS]) from error
    outcome, score = run.pop("outcome", ""), run.pop("score", None)
    if outcome not in (Trajectory.Outcome.SUCCESS, Trajectory.Outcome.FAILURE):
        raise _Unusable("its run does not say the outcome, success or failure")
    return TryResult(
        success=outcome == Trajectory.Outcome.SUCCESS,
        steps=steps,
        score=score,
        turns=len(steps),
        cost_usd=float(run.get("cost_usd") or 0),
        members={name: value for name, value in run.items() if name not in ("task", "task_id", "outcome_source")},
    )
