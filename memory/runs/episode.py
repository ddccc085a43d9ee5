"""A finished run as a reflector reads it, free of the database."""

from dataclasses import dataclass, field
from typing import Any

# Scores of a run from which it counts as a success, and below which as a failure.
SUCCESS_SCORE, FAILURE_SCORE = 0.85, 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """A tool call: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a run. `index` counts from 1. Texts are "" where the agent said nothing."""

    index: int
    thought: str = ""
    action: Action | None = None
    observation: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """A finished run, free of the database: what a reflector may read.

    `score` is 0–1 or None when not known. `injected` holds the lessons this run was given, which may not come back as
    lessons of its own: the trigger and the guideline of each, in two lines. `tools` names those the run could have
    called, where it said so. `cut_off` is the limit that ended the run, "" if none did. `family` holds other runs of
    the family for reflectors that read them.
    """

    task: str
    steps: tuple[Step, ...] = ()
    outcome: str = "unknown"
    score: float | None = None
    outcome_source: str = ""
    task_id: str = ""
    agent: str = ""
    tags: tuple[str, ...] = ()
    summary: str = ""
    mistakes: tuple[str, ...] = ()
    successes: tuple[str, ...] = ()
    mistake_cards: tuple[dict[str, Any], ...] = ()
    injected: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    cut_off: str = ""
    family: tuple["Episode", ...] = ()
