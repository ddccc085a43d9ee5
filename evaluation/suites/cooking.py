"""Text games: an agent learns to cook from its own games, and the search must find those lessons among others."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from evaluation.arms import Arm
from evaluation.environments.base import Environment
from evaluation.environments.cooking import TRIGGER, USE, find_facts
from evaluation.environments.textworld_games import CookingGames, find_folder, require_textworld
from evaluation.errors import EvaluationError
from evaluation.suites.base import About, Options
from evaluation.suites.loop.suite import ClosedLoop
from memory.heuristics.text import Citation, HeuristicText
from memory.runs.episode import Episode
from reflection.reflectors.base import NearHeuristic, ProposedLesson, ReflectionResult
from reflection.reflectors.reflections import ReflectorFactory

BACKGROUND = Path(__file__).resolve().parents[1] / "data" / "lessons" / "reflexion.jsonl"
MAX_TRIGGER_CHARACTERS = 80  # taken from the start of a lesson that has no condition


class Cooking(ClosedLoop):
    """One unit per seed; each seed has its own games."""

    about = About(
        name="textworld",
        title="Text games: does the search find lessons from play among lessons about other work?",
        data="TextWorld cooking games: 2 ingredients, 6 rooms, 30 to learn from and 60 others per seed",
        licence="MIT (TextWorld by Microsoft; 633 lessons about other work from Reflexion)",
        splits="As in TextWorld: no game to learn from has the foods, or the preparations, of a test game.",
        seeds="Each seed generates different games. With the same lessons a game always ends the same way.",
        proves=(
            "This shows whether lessons learnt by playing reach the agent in a new game, among hundreds of lessons "
            "about other work. It does not show how much a language model gains: this agent is a script that lacks "
            "exactly the knowledge in these lessons."
        ),
        reflector="cooking, version 1: a deterministic rule that is part of this suite; no language model",
    )
    default_arms = (
        "none", "random:10", "all", "lexical:{k}", "embedding:{k}", "hybrid:{k}", "shuffled", "poison-unapproved",
        "poison-approved",
    )  # fmt: skip
    curve = (1, 2, 3, 10)
    can_stage = True
    same_words_same_task = False  # all games have the same objective

    def check(self, options: Options) -> None:
        require_textworld()

    def arms(self, options: Options) -> list[Arm]:
        arms = super().arms(options)
        for arm in arms:
            if arm.store in ("noreward", "flipped"):
                raise EvaluationError(
                    f"The suite textworld has no arm {arm.name}: it learns from what happens in a game, not from how "
                    "the game ends."
                )
        return arms

    def collect(self, unit: str, options: Options) -> Any:
        """Return the folder of the games; no live data is read."""
        return str(find_folder(settings.ERL_HOME))

    def open(self, options: Options) -> Environment:
        return CookingGames(Path(options.material))

    def make_reflector(self, options: Options) -> ReflectorFactory | None:
        return lambda *, ask: CookingReflector()

    def count_trials(self, options: Options) -> int:
        return 1

    def background(self, options: Options) -> tuple[HeuristicText, ...]:
        return read_background()


class CookingReflector:
    """Proposes one lesson for each verb whose tool a run shows."""

    name = "cooking"
    version = "1"
    reads_near = False
    reads_family = False

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...] = ()) -> ReflectionResult:
        facts = find_facts(
            (str(step.action.arguments.get("command", "")) if step.action else "", step.observation)
            for step in episode.steps
        )
        if not facts:
            return ReflectionResult(skip_reason="The run does not show which tool any verb needs.")
        return ReflectionResult(
            lessons=tuple(
                ProposedLesson(text=write_lesson(verb, tool), citations=(Citation(first_step=step, last_step=step),))
                for verb, (tool, step) in facts.items()
            )
        )


def write_lesson(verb: str, tool: str) -> HeuristicText:
    """Write a lesson in the form that the agent can parse from its prompt."""
    return HeuristicText(trigger=f"{TRIGGER}{verb}", guideline=f"{USE}{tool}.", polarity="works", scope="project")


@lru_cache(maxsize=1)
def read_background() -> tuple[HeuristicText, ...]:
    """Return lessons that language models wrote about other work; their first words serve as the condition."""
    rows = [json.loads(line)["lesson"] for line in BACKGROUND.read_text(encoding="utf-8").splitlines()]
    return tuple(
        HeuristicText(trigger=row[:MAX_TRIGGER_CHARACTERS].strip(), guideline=row, scope="project") for row in rows
    )
