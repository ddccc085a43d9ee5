"""The interface of an environment: it lists tasks and lets an agent try one with lessons in its prompt."""

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
    """A task. `id` is unique across both splits of a seed; `text` is the agent's instruction and the search query."""

    id: str
    text: str
    family: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TryResult:
    """The result of one try. `steps` has any form that POST /trajectories accepts; `score` is between 0 and 1.

    `error` says why the agent gave no answer; such a try counts as not solved, and without steps it teaches nothing.
    `members` are more members of the run as POST /trajectories has them, for example `tools`.
    """

    success: bool
    steps: Sequence[Any] = ()
    score: float | None = None
    turns: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    error: str = ""
    members: dict[str, Any] = field(default_factory=dict)


class Environment(Protocol):
    """Your own tasks and your own agent. `run` may be called from several threads at once."""

    name: str

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        """Return the tasks to learn from ("source") or to test on ("test"). The splits must not overlap."""
        ...

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        """Let the agent try a task. `lessons` is a context block from this product, or empty."""
        ...


def load_environment(path: str) -> Environment:
    """Create the environment named by `package.module:Class`, which may be in the working directory.

    Raises:
        EvaluationError: it cannot be imported, or lacks a method.
    """
    module_name, _, class_name = path.partition(":")
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109 - sys.path holds text
        # `manage.py` puts its own folder there, not the one in which the command was started.
        sys.path.insert(0, here)
    try:
        environment: Environment = getattr(importlib.import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise EvaluationError(
            f"--environment {path!r} cannot be loaded: {error}. Name a class that takes no arguments, as "
            "package.module:Class."
        ) from error
    if not all(callable(getattr(environment, method, None)) for method in ("tasks", "run")):
        raise EvaluationError(f"--environment {path!r}: the class needs the methods tasks and run.")
    return environment
