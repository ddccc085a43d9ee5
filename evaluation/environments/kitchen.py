"""TextWorld's cooking games, played by a scripted agent that slips: it walks into closed doors, cooks what it lacks."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation.environments.base import Split, Task, TryResult
from evaluation.environments.cooking import CUTS, Cook
from evaluation.environments.scripted.advice import read_advice
from evaluation.environments.scripted.agent import ScriptedAgent
from evaluation.environments.scripted.plan import Answer, PlannedCall, Slip, Work
from evaluation.environments.scripted.slips import choose_slips, find_slips
from evaluation.environments.textworld_games import INTERPRETER, SEEDS_APART, CookingGames, StartedGame, make_game

RIGHT = {"fry": "stove", "roast": "oven", "grill": "BBQ"} | dict.fromkeys(CUTS, "knife")
VERBS = ("look", "inventory", "examine", "open", "close", "go", "take", "drop", "cook", "prepare", "eat", *CUTS)
MAY_SKIP = ("open", "take", "prepare", "examine")  # walking is no mistake a lesson could prevent
_REFUSED = re.compile(
    r"^(You (can't|cannot|don't|have to|need to|still|must|are not|aren't)|Something still|That's not|I (don't|didn't)"
    r"|What do you)"
)
_TWO_PARTS = {"take": " from ", "cook": " with ", **dict.fromkeys(CUTS, " with ")}
FORMS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("cook", "with"): lambda tool: {"stove": "oven", "oven": "stove", "BBQ": "oven"}.get(tool, tool),
    **{(cut, "with"): lambda tool: "oven" for cut in CUTS},
    ("prepare", "thing"): lambda thing: "food",
}


MAX_GAMES = 40  # of a split; each takes most of a second to find the slips it gives occasion for


class Kitchen(CookingGames):
    """The games of the suite textworld, with one tool for each verb."""

    name = "kitchen"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.works: dict[str, tuple[Work, list[Slip]]] = {}

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        return super().tasks(split, seed=seed)[:MAX_GAMES]

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        with INTERPRETER:
            return self._play_with(lessons, task, seed=f"{int(task.id.partition('-')[2]) // SEEDS_APART}", trial=trial)

    def _play_with(self, lessons: str, task: Task, *, seed: str, trial: int) -> TryResult:
        path = make_game(self.folder, task.id)
        game = StartedGame(path, lists_commands=False)
        try:
            if task.id not in self.works:
                work = Work(requests=(task.text,), plan=make_plan(path), offered=VERBS, forms=FORMS, may_skip=MAY_SKIP)
                self.works[task.id] = find_slips(lambda: PlayedGame(game), work)
            work, occasions = self.works[task.id]
            slips = choose_slips(occasions, seed=seed, task=task.id)
            played = PlayedGame(game)
            agent = ScriptedAgent(played, work, slips, advice=read_advice(lessons), seed=f"{task.id}:{trial}")
            agent.do_turn(0)
            return TryResult(
                success=played.is_won,
                score=game.score,
                steps=agent.steps,
                turns=len(agent.steps),
                members={"tools": list(VERBS)},
            )
        finally:
            game.close()


def make_plan(path: Path) -> list[PlannedCall]:
    """Return the calls with which an agent that can cook wins a game."""
    game = StartedGame(path)
    try:
        cook = Cook(game, RIGHT, seed=path.stem)
        cook.play()
        return [parse(str(step["action"]["arguments"]["command"])) for step in cook.steps]
    finally:
        game.close()


class PlayedGame:
    """A started game, with one tool for each verb."""

    def __init__(self, game: StartedGame) -> None:
        self.game = game
        self.game.begin()
        self.is_over = self.is_won = False

    def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        if self.is_over:
            return Answer(text="The game is over.", is_error=True)
        state = self.game.send(write(name, arguments))
        self.is_over, self.is_won = state.is_over, state.is_won
        return Answer(text=state.text, is_error=bool(_REFUSED.match(state.text)))


def parse(command: str) -> PlannedCall:
    """Read a command such as `take carrot from fridge` as a call."""
    verb, _, rest = command.partition(" ")
    separator = _TWO_PARTS.get(verb, "")
    thing, _, other = rest.partition(separator) if separator else (rest, "", "")
    arguments = {"thing": thing} | ({separator.strip(): other} if other else {})
    return PlannedCall(turn=0, name=verb, arguments=arguments)


def write(name: str, arguments: dict[str, Any]) -> str:
    """Write a call as a command; the reverse of `parse`."""
    return " ".join(
        [name, *(each for key, value in arguments.items() for each in (key * (key != "thing"), value) if each)]
    )
