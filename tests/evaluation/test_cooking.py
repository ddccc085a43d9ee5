"""Text games: the agent that cannot cook, in a kitchen of our own, and what is said where the games are missing."""

from importlib.util import find_spec
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.environments import textworld_games
from evaluation.environments.cooking import Cook, Seen, find_facts, find_way, read_lessons, read_recipe
from evaluation.environments.textworld_games import OBJECTIVE, CookingGames
from evaluation.suites.cooking import CookingReflector, read_others, write_lesson
from evaluation.suites.loop.suite import refuse_shared_tasks
from memory.heuristics.text import HeuristicText
from memory.retrieval.context import build_context
from memory.runs.episode import Action, Episode, Step

PAGE = """You open the cookbook.

Ingredients:
  pork chop

Directions:
  slice the pork chop
  fry the pork chop
  prepare meal
"""
RIGHT = {"slice": "knife", "fry": "stove"}


class Kitchen:
    """A hall and a kitchen, by the wording of the real games. Only what was asked for may be done to the meat."""

    def __init__(self) -> None:
        self.room, self.held, self.done, self.is_lost = "Hall", set[str](), set[str](), False

    def begin(self) -> Seen:
        return self._see("-= Hall =-")

    def send(self, command: str) -> Seen:
        match command.split():
            case ["go", _]:
                self.room = "Kitchen" if self.room == "Hall" else "Hall"
                return self._see(f"-= {self.room} =-")
            case ["examine", "cookbook"]:
                return self._see(PAGE)
            case ["take", *words]:
                self.held.add(" ".join(words).partition(" from ")[0])
                return self._see("You take it.")
            case ["cook", "pork", "chop", "with", tool] if tool in ("stove", "oven"):
                self.done.add(tool)
                self.is_lost = tool == "oven"
                return self._see(f"You {'fried' if tool == 'stove' else 'roasted'} the pork chop.")
            case ["slice", "pork", "chop", "with", tool]:
                if tool != "knife":
                    return self._see("Cutting something requires a knife.")
                self.done.add("sliced")
                return self._see("You slice the pork chop.")
            case ["eat", "meal"] if self.done == {"stove", "sliced"}:
                return Seen(text="The End", commands=(), is_over=True, is_won=True)
        return self._see("That cannot be done.")

    def _see(self, text: str) -> Seen:
        here = (
            ["go north"] if self.room == "Hall" else ["go south", "examine cookbook", "examine stove", "examine oven"]
        )
        if self.room == "Kitchen":
            here += [f"take {thing} from table" for thing in ("pork chop", "knife") if thing not in self.held]
        return Seen(text=text, commands=tuple(sorted(here)), is_over=self.is_lost)


def block(*texts: HeuristicText) -> str:
    lessons: list[dict[str, Any]] = [
        {"id": f"00000000-0000-7000-8000-{number:012x}"}
        | {name: getattr(text, name) for name in ("trigger", "guideline", "avoid", "not_when")}
        for number, text in enumerate(texts, 1)
    ]
    return build_context(lessons, budget_tokens=4000).text


def play(known: dict[str, str], seed: str = "a") -> Cook:
    cook = Cook(Kitchen(), known, seed=seed)
    cook.play()
    return cook


def test_agent_reads_its_lessons_back_and_passes_over_all_others() -> None:
    assert read_lessons(block(*read_others()[:3], write_lesson("fry", "stove"), write_lesson("slice", "knife"))) == {
        "fry": "stove",
        "slice": "knife",
    }


def test_agent_wins_with_the_right_lessons_and_loses_with_wrong_ones() -> None:
    assert play(RIGHT).seen.is_won
    assert not play({"slice": "knife", "fry": "oven"}).seen.is_won


def test_agent_without_lessons_guesses_and_mostly_fails() -> None:
    wins = sum(play({}, seed=f"{number}").seen.is_won for number in range(100))

    assert 0 < wins < 20  # one guess in four, twice


def test_what_a_try_showed_becomes_lessons_that_win() -> None:
    steps = [step for number in range(10) for step in play({}, seed=f"{number}").steps]
    episode = Episode(
        task=OBJECTIVE,
        steps=tuple(
            Step(index=place, action=Action(**step["action"]), observation=step["observation"])
            for place, step in enumerate(steps, 1)
        ),
    )

    lessons = [lesson.text for lesson in CookingReflector().reflect(episode).lessons]

    assert read_lessons(block(*lessons)) == RIGHT | {"roast": "oven"}
    assert play(read_lessons(block(*lessons))).seen.is_won


def test_run_that_shows_nothing_gives_no_lesson() -> None:
    assert find_facts(iter([("look", "A hall."), ("cook pork chop with knife", "That cannot be done.")])) == {}
    assert CookingReflector().reflect(Episode(task=OBJECTIVE)).skip_reason


def test_recipe_is_read_and_another_page_is_none() -> None:
    recipe = read_recipe(PAGE)

    assert recipe.ingredients == ["pork chop"]
    assert recipe.directions == [("slice", "pork chop"), ("fry", "pork chop")]
    assert read_recipe("A page about gardening.").directions == []


def test_shortest_way_is_found() -> None:
    ways = {"a": {"east": "b", "south": "c"}, "b": {"east": "d"}, "c": {"east": ""}}

    assert find_way(ways, "a", "d") == ["east", "east"]
    assert find_way(ways, "b", "a") == []


def test_games_to_learn_from_are_none_of_the_others(tmp_path: Any) -> None:
    games = CookingGames(tmp_path)
    source, test = games.tasks("source", seed=1), games.tasks("test", seed=1)

    refuse_shared_tasks(source, test, by_text=False)
    assert {task.id for task in games.tasks("test", seed=2)}.isdisjoint(task.id for task in test)


@pytest.mark.django_db
def test_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textworld_games, "find_spec", lambda name: None if name == "textworld" else find_spec(name))

    with pytest.raises(CommandError, match="uv sync --group textworld"):
        call_command("evaluate", "--suite", "textworld", "--quiet")
