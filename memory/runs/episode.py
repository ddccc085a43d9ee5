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
class EpisodeStep:
    """One step of a run. `index` counts from 1. Texts are "" where the agent said nothing."""

    index: int
    thought: str = ""
    action: Action | None = None
    observation: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedTool:
    """A tool that a run could have called, as far as the run described it."""

    name: str
    description: str = ""
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierTurn:
    """An earlier run of the same conversation: what was asked, what the agent called, and its last words."""

    task: str
    called: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """A finished run, free of the database: what a reflector may read.

    `score` is 0–1 or None when not known. `injected` holds the lessons this run was given, which may not come back as
    lessons of its own: the trigger and the guideline of each, in two lines. `tools` names those the run could have
    called, and their parameters, where it said so; `offered` has the same tools one by one. `system_prompt` is what the
    agent was told before the run. `earlier` holds the turns of the conversation before this one, the first one first.
    `cut_off` is the limit that ended the run, "" if none did. `family` holds other runs of the family for reflectors
    that read them, and `family_names` the tools and parameters of its runs. `tries` says which steps are of which try
    and how each ended, where the run is several tries of a task; `contrasts` what runs that ended otherwise did.
    """

    task: str
    steps: tuple[EpisodeStep, ...] = ()
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
    offered: tuple[OfferedTool, ...] = ()
    system_prompt: str = ""
    earlier: tuple[EarlierTurn, ...] = ()
    cut_off: str = ""
    family: tuple["Episode", ...] = ()
    family_names: frozenset[str] = frozenset()
    tries: tuple[dict[str, Any], ...] = ()
    contrasts: tuple[dict[str, Any], ...] = ()
