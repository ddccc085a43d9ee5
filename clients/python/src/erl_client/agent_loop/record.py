"""What is recorded of an attempt: the run that an agent printed, or the end of its output, and what the check said."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from erl_client.agent_loop.processes import Ended
from erl_client.logs import read_log
from erl_client.plain import as_plain, fit

MAX_TAIL_BYTES = 20_000  # of output that is recorded as it is
CANNOT_RUN = (126, 127)  # what a shell answers where it cannot run a command
LOG_MEMBERS = ("tools", "system_prompt", "model", "tokens", "cost_usd")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a loop does. `check` tells whether the goal is reached; the other members make the loop what it is."""

    goal: str
    command: list[str]
    family: str = ""
    check: str = ""

    def identity(self) -> dict[str, Any]:
        return {"goal": self.goal, "command": self.command, "family": self.family}


@dataclass(kw_only=True, slots=True)
class Attempt:
    """One attempt at an iteration. `run` is what is recorded of it, and `recorded` whether it is on its way to ERL."""

    loop: str
    iteration: int
    number: int
    status: str = "running"  # then "done" or "interrupted"
    started_at: str = ""
    retrieval_id: str | None = None
    reached: bool | None = None  # None where nothing says so
    run: dict[str, Any] = field(default_factory=dict)
    recorded: bool = False

    @property
    def name(self) -> str:
        return f"{self.iteration:04d}.{self.number}"

    @property
    def external_id(self) -> str:
        return f"loop:{self.loop}:{self.name}"


def describe_attempt(
    plan: Plan, attempt: Attempt, *, place: Path, error: str, checked: Ended | None = None
) -> dict[str, Any]:
    """Return an attempt as `POST /api/v1/trajectories` takes it. `place` is the folder with its output."""
    name = Path(plan.command[0]).name
    printed = _read_transcript(place / "agent.stdout", task=plan.goal)
    told = {
        "action": {"name": name, "arguments": {"command": plan.command}},
        "observation": _read_tail(place / "agent.stdout"),
    }
    steps = list(printed.get("steps", [told]))
    if error:
        steps.append({"error": "\n".join(filter(None, [error, _read_tail(place / "agent.stderr")]))})
    outcome = {"outcome": "unknown"}
    if checked:
        steps.append(_describe_check(plan, place, checked))
        if checked.exit_code not in CANNOT_RUN:
            ended = "success" if checked.exit_code == 0 else "failure"
            outcome = {"outcome": ended, "outcome_source": "test"}
    metadata = {"loop": attempt.loop, "iteration": attempt.iteration, "attempt": attempt.number}
    if attempt.status == "interrupted":
        metadata["interrupted"] = True
    body = {
        **{member: printed.get(member) for member in LOG_MEMBERS},
        "task": plan.goal,
        "task_id": plan.family,
        "agent": name,
        "external_id": attempt.external_id,
        "retrieval_id": attempt.retrieval_id,
        "started_at": attempt.started_at,
        "ended_at": max(attempt.started_at, now()),
        "metadata": metadata,
        "steps": [{**step, "index": index} for index, step in enumerate(steps, start=1)],
        **outcome,
    }
    return fit(as_plain({name: value for name, value in body.items() if value not in (None, "", [])}))


def say_end(ended: Ended) -> str:
    return f"exit code {ended.exit_code}" if ended.why == "exit" else "a time-out"


def now() -> str:
    return datetime.now(timezone.utc).isoformat()


def _describe_check(plan: Plan, place: Path, checked: Ended) -> dict[str, Any]:
    said = "\n".join(filter(None, [_read_tail(place / "check.stdout"), _read_tail(place / "check.stderr")]))
    passed = checked.exit_code == 0
    return {
        "action": {"name": "check", "arguments": {"command": plan.check}},
        "observation": said if passed else "",
        "error": "" if passed else f"It ended with {say_end(checked)}.\n{said}".strip(),
    }


def _read_transcript(file: Path, *, task: str) -> dict[str, Any]:
    """Return the run that an agent printed, {} where its output is no log that can be read."""
    try:
        content = file.read_bytes()
        content.decode()
        runs = [run for run in read_log(content, defaults={"task": task}).runs if run.get("steps")]
    except Exception:  # any output at all is allowed
        return {}
    return next((run for run in runs if not run.get("parent_id")), {})


def _read_tail(file: Path) -> str:
    """Return the last of a command's output."""
    with suppress(OSError), file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - MAX_TAIL_BYTES))
        text = stream.read().decode("utf-8", "replace").strip()
        return f"[… the last {MAX_TAIL_BYTES:,} of {size:,} bytes]\n{text}" if size > MAX_TAIL_BYTES else text
    return ""
