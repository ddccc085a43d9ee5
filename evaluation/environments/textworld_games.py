"""Cooking games of Microsoft's TextWorld, made from seeds. The package is optional, and imported here alone."""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from evaluation.environments.base import Played, Split, Task
from evaluation.environments.cooking import Cook, Seen, read_lessons
from evaluation.errors import EvaluationError

SETTINGS = {"recipe": 2, "take": 2, "go": 6, "open": True, "cook": True, "cut": True, "drop": False}
# Foods of the test games, or how they are prepared, occur in none of the games to learn from
FOODS: dict[Split, str] = {"source": "train", "test": "test"}
GAMES: dict[Split, int] = {"source": 30, "test": 60}
FIRST: dict[Split, int] = {"source": 0, "test": 500}
SEEDS_APART = 1000
OBJECTIVE = (
    "You are hungry! Let's cook a delicious meal. Check the cookbook in the kitchen for the recipe. Once done, enjoy "
    "your meal!"
)
_ALONE = Lock()  # the interpreter of the games is not made for threads


def require_textworld() -> None:
    """Refuse to go on without the package.

    Raises:
        EvaluationError: it is missing; the message says how to install it.
    """
    if find_spec("textworld") is None:
        raise EvaluationError(
            "The suite textworld plays games of the package textworld, which is not installed. Install it with "
            "`uv sync --group textworld` (it needs a C compiler), and run the command again."
        )


def find_folder(home: Path) -> Path:
    """Return where the games of the installed version are kept."""
    return home / "games" / f"textworld-{metadata.version('textworld')}"


class CookingGames:
    """Sixty games to be tested on and thirty to learn from, for each seed. `run` is the same for the same lessons."""

    name = "textworld-cook"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._played: dict[tuple[str, int, tuple[tuple[str, str], ...]], Played] = {}

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        first = seed * SEEDS_APART + FIRST[split]
        return [Task(id=f"{FOODS[split]}-{first + number}", text=OBJECTIVE) for number in range(GAMES[split])]

    def run(self, task: Task, *, lessons: str, trial: int) -> Played:
        known = read_lessons(lessons)
        key = task.id, trial, tuple(sorted(known.items()))
        with _ALONE:
            if key not in self._played:
                self._played[key] = self._play(task, known, trial)
            return self._played[key]

    def _play(self, task: Task, known: dict[str, str], trial: int) -> Played:
        game = _StartedGame(make_game(self._folder, task.id))
        try:
            cook = Cook(game, known, seed=f"{task.id}:{trial}")
            end = cook.play()
            return Played(success=end.is_won, score=game.score, steps=cook.steps, turns=len(cook.steps))
        finally:
            game.close()


def make_game(folder: Path, name: str) -> Path:
    """Return the file of a game such as `train-17`, making it where it is missing, which takes seconds."""
    path = folder / f"{name}.z8"
    if path.is_file():
        return path
    foods, _, number = name.partition("-")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{os.getpid()}-{name}.z8"
    options = _import("textworld").GameOptions()
    options.seeds, options.path, options.file_ext, options.force_recompile = int(number), str(part), ".z8", True
    wanted = SETTINGS | {"recipe_seed": int(number), "seed": int(number), "split": foods}
    game = _import("textworld.challenges.tw_cooking.cooking").make(wanted, options)
    _import("textworld.generator").compile_game(game, options)
    part.with_suffix(".ni").unlink(missing_ok=True)
    part.with_suffix(".json").rename(path.with_suffix(".json"))
    part.rename(path)  # last, so that a game that is there is whole
    return path


class _StartedGame:
    """A game in TextWorld's own interpreter."""

    def __init__(self, path: Path) -> None:
        wanted = _import("textworld").EnvInfos(feedback=True, admissible_commands=True, won=True, max_score=True)
        self._environment = _import("textworld").start(str(path), wanted)
        self.score = 0.0

    def begin(self) -> Seen:
        return self._read(self._environment.reset(), is_over=False)

    def send(self, command: str) -> Seen:
        state, _, is_over = self._environment.step(command)
        return self._read(state, is_over=is_over)

    def close(self) -> None:
        self._environment.close()

    def _read(self, state: Any, *, is_over: bool) -> Seen:
        self.score = float(state.score or 0) / float(state.max_score or 1)
        text = "\n".join(line.rstrip() for line in state.feedback.splitlines() if not line.startswith(">")).strip()
        commands = tuple(sorted(state.admissible_commands or ()))
        return Seen(text=text, commands=commands, is_over=is_over, is_won=bool(state.won))


@cache
def _import(name: str) -> Any:
    return import_module(name)
