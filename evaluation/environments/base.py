"""What a world of tasks is to an evaluation: it names tasks, and lets an agent try one with lessons in its prompt."""

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from evaluation.errors import EvaluationError

Split = Literal["source", "test"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A task. `id` is unique among both splits of a seed; `text` is what the agent is told and searched with."""

    id: str
    text: str
    family: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """How one try ended. `steps` in any form that POST /trajectories takes; `score` 0–1."""

    success: bool
    steps: Sequence[Any] = ()
    score: float | None = None
    turns: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    error: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class Environment(Protocol):
    """Your own tasks and your own agent. `run` may be called from several threads at once."""

    name: str

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        """Return the tasks to learn from, or the others, which must be different tasks."""
        ...

    def run(self, task: Task, *, lessons: str, trial: int) -> Played:
        """Let the agent try a task with `lessons`, which is "" or the block that agents get from this product."""
        ...


def load_environment(place: str) -> Environment:
    """Make the environment that `package.module:Class` names; modules of the working directory are found.

    Raises:
        EvaluationError: there is none, or it lacks a method.
    """
    module_name, _, class_name = place.partition(":")
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109 - sys.path holds text
        sys.path.insert(0, here)
    try:
        environment: Environment = getattr(importlib.import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise EvaluationError(
            f"--environment {place!r} cannot be used: {error}. Write it as package.module:Class, a class that needs no "
            "arguments."
        ) from error
    if not all(callable(getattr(environment, method, None)) for method in ("tasks", "run")):
        raise EvaluationError(f"--environment {place!r}: the class needs the methods tasks and run.")
    return environment
