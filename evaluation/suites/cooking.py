"""Text games: an agent that cannot cook learns it from its own games, and the search must find what it learnt."""

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

OTHERS = Path(__file__).resolve().parents[1] / "data" / "lessons" / "reflexion.jsonl"
MOST_CHARACTERS = 80  # of a condition made of the beginning of a lesson that has none


class Cooking(ClosedLoop):
    """One unit a seed; a seed has games of its own."""

    about = About(
        name="textworld",
        title="Text games: is what was learnt by playing found among lessons about other work?",
        data="TextWorld cooking games made from seeds: 2 ingredients, 6 rooms, 30 to learn from and 60 others a seed",
        licence="MIT (TextWorld, Microsoft; the 633 lessons about other work: Reflexion)",
        splits="By TextWorld: foods of the test games, or their preparations, occur in no game to learn from.",
        seeds="A seed makes other games. A game has one end for the same lessons.",
        proves=(
            "It proves that what an agent learnt by playing reaches it in a new game through the product, among "
            "hundreds of lessons about other work; it cannot prove how much a language model gains, since this agent "
            "is a script that lacks exactly what these lessons say."
        ),
        reflector="cooking, version 1: a deterministic rule of this suite, no language model",
    )
    default_arms = (
        "none", "random:10", "all", "lexical:{k}", "embedding:{k}", "hybrid:{k}", "shuffled", "poison-unapproved",
        "poison-approved",
    )  # fmt: skip
    curve = (1, 2, 3, 10)
    same_words_same_task = False  # the games differ in everything but their objective

    def check(self, options: Options) -> None:
        require_textworld()

    def arms(self, options: Options) -> list[Arm]:
        arms = super().arms(options)
        for arm in arms:
            if arm.store in ("noreward", "flipped"):
                raise EvaluationError(
                    f"The suite textworld has no arm {arm.name}: it learns from what is seen in a game, not from how "
                    "the game ended."
                )
        return arms

    def collect(self, unit: str, options: Options) -> Any:
        """Say where games are kept; nothing of live data is read."""
        return str(find_folder(settings.ERL_HOME))

    def open(self, options: Options) -> Environment:
        return CookingGames(Path(options.material))

    def make_reflector(self, options: Options) -> ReflectorFactory | None:
        return lambda *, ask: CookingReflector()

    def count_trials(self, options: Options) -> int:
        return 1

    def furnishings(self, options: Options) -> tuple[HeuristicText, ...]:
        return read_others()


class CookingReflector:
    """Proposes one lesson for each verb that a run shows the tool of."""

    name = "cooking"
    version = "1"
    reads_near = False

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...] = ()) -> ReflectionResult:
        said = ((str(step.action.arguments.get("command", "")) if step.action else "", step) for step in episode.steps)
        facts = find_facts((command, step.observation) for command, step in said)
        if not facts:
            return ReflectionResult(skip_reason="The run shows of no verb with what it is done.")
        return ReflectionResult(
            lessons=tuple(
                ProposedLesson(text=write_lesson(verb, tool), citations=(Citation(first_step=place, last_step=place),))
                for verb, (tool, place) in facts.items()
            )
        )


def write_lesson(verb: str, tool: str) -> HeuristicText:
    """Put a lesson into words that the agent reads back from its prompt."""
    return HeuristicText(trigger=f"{TRIGGER}{verb}", guideline=f"{USE}{tool}.", polarity="works", scope="project")


@lru_cache(maxsize=1)
def read_others() -> tuple[HeuristicText, ...]:
    """Return lessons that language models wrote about other work; their beginning is their condition."""
    rows = [json.loads(line)["lesson"] for line in OTHERS.read_text(encoding="utf-8").splitlines()]
    return tuple(HeuristicText(trigger=row[:MOST_CHARACTERS].strip(), guideline=row, scope="project") for row in rows)
