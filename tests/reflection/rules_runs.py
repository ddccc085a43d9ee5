"""Short runs for the tests of the rules reflector."""

import json
from typing import Any

from memory.intake.files import as_episode, as_trajectory
from memory.runs.episode import Action, Episode, EpisodeStep
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.rules.run_view import ReadRun
from tests.real_runs import TAU, WEBSHOP, load_runs


def call(name: str, answer: Any = "ok", /, **arguments: Any) -> dict[str, Any]:
    """A step that calls a tool; an answer that is no text stands in the run as JSON."""
    observation = answer if isinstance(answer, str) else json.dumps(answer)
    return {"action": Action(name=name, arguments=arguments), "observation": observation}


def say(text: str, heard: str = "") -> dict[str, Any]:
    """A turn of talk with the user."""
    return {"action": Action(name="respond", arguments={"content": text}), "observation": heard}


def make_run(*steps: dict[str, Any], outcome: str = "failure", **overrides: Any) -> Episode:
    """An episode of these steps."""
    fields: dict[str, Any] = {"task": "Help the customer.", "outcome": outcome} | overrides
    return Episode(steps=tuple(EpisodeStep(index=i, **step) for i, step in enumerate(steps, start=1)), **fields)


def view(*steps: dict[str, Any], **overrides: Any) -> ReadRun:
    """What a detector is given of such a run."""
    return ReadRun(make_run(*steps, **overrides))


def load_real_run(run_id: str) -> Episode:
    """A real run of the excerpts by its id."""
    path = TAU if run_id.startswith("tau") else WEBSHOP
    raw = next(run for run in load_runs(path) if run["id"] == run_id)
    return as_episode(as_trajectory(raw, defaults={}))


def reflect_on(episode: Episode) -> ProposedLesson:
    """The one lesson the reflector has for a run."""
    (lesson,) = RulesReflector(max_lessons=1).reflect(episode, near=()).lessons
    return lesson
